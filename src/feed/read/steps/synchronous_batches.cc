#include "feed/read/steps/synchronous_batches.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/logging.h"
#include "base/thread/mutex.h"
#include "feed/read/steps/pad_batch.h"

namespace tfos::feed {
namespace {

using Move = EpochSteps::Move;

/// What a node takes from its queue at once to tell how many batches it can make. It is enough
/// for the answer to be there when they are wanted, and little of a queue that may be long.
constexpr std::uint64_t kBatchesAhead = 16;

/// After so long a wait it is worth a line what is waited for, and again after as much.
constexpr std::chrono::seconds kLogInterval{15};

/// Until it is time to try again.
Status Pause(const Wait& wait) {
  Mutex mutex;
  CondVar never;
  const MutexLock lock(mutex);
  return never.WaitRound(mutex, wait, "rows could not be passed on");
}

}  // namespace

SynchronousBatches::SynchronousBatches(BatchReader& reader, StepDesk& tickets, std::string queue)
    : reader_(reader),
      tickets_(tickets),
      queue_(std::move(queue)),
      steps_(queue_, reader.node_id()) {}

Result<BatchResult> SynchronousBatches::Next(Remainder remainder, const BatchOptions& options,
                                             const Wait& wait) {
  if (remainder == Remainder::kDrop || remainder == Remainder::kPad) {
    return NextUnlessStopped(remainder, options, wait);
  }
  // Rows that are left pending are in no count: they are unread.
  if (reader_.stopped()) return BatchResult(EndOfFeed{});
  bool waits_no_more = false;
  const auto check = [&]() -> Status {
    if (wait.check) TFOS_RETURN_IF_ERROR(wait.check());
    if (!reader_.stopped()) return {};
    waits_no_more = true;
    return {ErrorKind::kInterrupted, "the cluster is being stopped"};
  };
  Result<BatchResult> next =
      NextUnlessStopped(remainder, options, {.deadline = wait.deadline, .check = check});
  if (!next.ok() && waits_no_more) return BatchResult(EndOfFeed{});
  return next;
}

Result<BatchResult> SynchronousBatches::NextUnlessStopped(Remainder remainder,
                                                          const BatchOptions& options,
                                                          const Wait& wait) {
  if (remainder == Remainder::kNone) {
    // The driver may feed another queue first.
    TFOS_RETURN_IF_ERROR(TellEpoch(wait, true));
    return reader_.Next(options, wait);
  }
  Status late;
  if (!turn_.Take(wait, late)) return late;
  const TurnHolder holder(turn_);
  // No tickets come any more: the coordinator leaves a node out that wants no more rows.
  if (reader_.terminated()) return BatchResult(EndOfFeed{});
  if (remainder == Remainder::kJoin) return NextStep(remainder, options, wait);
  BatchOptions full = options;
  full.drop_remainder = false;
  return NextStep(remainder, full, wait);
}

Status SynchronousBatches::TellEpoch(const Wait& turn, bool waits) {
  if (!tickets_.tells_waits()) return {};
  Status late;
  if (!turn_.Take(turn, late)) return late;
  const TurnHolder holder(turn_);
  TFOS_ASSIGN_OR_RETURN(const std::optional<std::uint32_t> epoch, reader_.EpochToBegin(turn));
  if (!epoch) return {};
  // What a node that waits would see is the same however often it is asked to look.
  const int looked = waits ? 0 : tickets_.look();
  return tickets_.Report({.queue = queue_, .epoch = *epoch, .waits = waits, .looked = looked});
}

Result<SynchronousBatches::Step> SynchronousBatches::AwaitStep(const BatchOptions& options,
                                                               const Wait& wait) {
  if (tickets_.tells_waits()) TFOS_RETURN_IF_ERROR(AwaitRows(options, wait));
  TFOS_ASSIGN_OR_RETURN(BatchReader::Ahead ahead, reader_.LookAhead(options, kBatchesAhead, wait));
  NoteEpoch(ahead.epoch);
  for (;;) {
    if (ahead.feed_over) return Step{.ahead = ahead};
    const auto enough = [&ahead, steps = &steps_](const StepGrant& known) {
      return steps->IsEnough(known, ahead);
    };
    if (steps_.MayReport()) {
      const bool waits = tickets_.tells_waits() && !tickets_.Has(queue_, ahead.epoch, enough);
      TFOS_RETURN_IF_ERROR(Report(ahead, options, waits));
    }
    const auto is_asked = [&, looked = looked_] { return tickets_.look() != looked; };
    TFOS_ASSIGN_OR_RETURN(
        const StepGrant grant,
        Await(
            ahead.epoch, [&](const StepGrant& known) { return enough(known) || is_asked(); },
            wait));
    if (!enough(grant)) {
      // Nothing is granted to a node that wants no more rows.
      if (reader_.terminated()) return Step{.ahead = ahead, .grant = grant, .stops = true};
      looked_ = tickets_.look();
      TFOS_ASSIGN_OR_RETURN(ahead, reader_.LookAhead(options, kBatchesAhead, wait));
      continue;
    }
    Move move = steps_.Next(grant, ahead, options);
    if (move == Move::kPassOn) {
      TFOS_RETURN_IF_ERROR(reader_.LookToEnd(options, wait).status());
      TFOS_RETURN_IF_ERROR(PassOn(grant, wait));
      TFOS_ASSIGN_OR_RETURN(ahead, reader_.LookToEnd(options, wait));
      move = steps_.Next(grant, ahead, options);
    }
    if (move == Move::kTakeOver) {
      TFOS_RETURN_IF_ERROR(TakeOver(grant.epoch, options, wait));
      TFOS_ASSIGN_OR_RETURN(ahead, reader_.LookToEnd(options, wait));
      move = steps_.Next(grant, ahead, options);
    }
    if (move != Move::kLookToEnd) {
      return Step{.ahead = ahead, .grant = grant, .stops = move == Move::kStop};
    }
    TFOS_ASSIGN_OR_RETURN(ahead, reader_.LookToEnd(options, wait));
  }
}

Status SynchronousBatches::AwaitRows(const BatchOptions& options, const Wait& wait) {
  for (;;) {
    looked_ = tickets_.look();
    TFOS_ASSIGN_OR_RETURN(const BatchReader::Ahead now,
                          reader_.LookNow(options, kBatchesAhead, wait));
    if (now.rows >= options.rows || now.epoch_over || now.feed_over) return {};
    NoteEpoch(now.epoch);
    TFOS_RETURN_IF_ERROR(Report(now, options, true));
    // The coordinator may ask meanwhile whether that is still so.
    const Wait a_while{.deadline = Deadline::After(kCheckInterval).Min(wait.deadline),
                       .check = wait.check};
    const Status came = reader_.LookAhead(options, 1, a_while).status();
    if (came.ok() || came.kind() != ErrorKind::kRetryLater || wait.deadline.passed()) return came;
  }
}

void SynchronousBatches::NoteEpoch(std::uint32_t epoch) {
  if (std::exchange(epoch_, epoch) != epoch) BeginEpoch();
}

Status SynchronousBatches::Report(const BatchReader::Ahead& ahead, const BatchOptions& options,
                                  bool waits) {
  StepReport report = steps_.ReportOf(ahead, options);
  report.waits = waits;
  report.looked = looked_;
  return tickets_.Report(report);
}

Status SynchronousBatches::PassOn(StepGrant grant, const Wait& wait) {
  for (;;) {
    const Status passed = PassRest(grant, wait);
    if (passed.ok()) break;
    if (passed.kind() != ErrorKind::kRetryLater && passed.kind() != ErrorKind::kReconnect) {
      return passed;
    }
    if (IsWorthALine()) {
      LogWarning("feed: another node waits for rows of epoch {} of '{}'; trying again: {}",
                 grant.epoch, queue_, passed.ToString());
    }
    TFOS_RETURN_IF_ERROR(Pause(wait));
    if (reader_.terminated()) break;
    // Only the coordinator knows which nodes have left: it leaves their passes out.
    TFOS_ASSIGN_OR_RETURN(grant, Await(
                                     grant.epoch, [](const StepGrant&) { return true; }, wait));
  }
  steps_.EndPassing();
  return {};
}

Status SynchronousBatches::PassRest(const StepGrant& grant, const Wait& wait) {
  const StepDesk::Passer passer = tickets_.passer();
  if (!passer) return {};
  const auto check = [&] {
    if (reader_.terminated()) return Status(ErrorKind::kReconnect, "the feed is over here");
    return wait.check ? wait.check() : Status::Ok();
  };
  EpochSteps* const steps = &steps_;
  while (const std::optional<RowPass> pass = steps->RestToPass(grant)) {
    std::uint64_t pieces = pieces_passed_on_;
    const auto bring = [&](std::span<const std::byte> chunk, const ItemRange& rows) -> Status {
      TFOS_RETURN_IF_ERROR(passer(
          grant, *pass, {.chunk = chunk, .rows = rows, .number = pieces + 1, .check = check}));
      ++pieces;
      steps->OnPassed(pass->to.node_id, rows.items());
      rows_passed_on_ += rows.items();
      return {};
    };
    const Status passed = reader_.PassOn(pass->rows, bring, wait);
    pieces_passed_on_ = pieces;
    TFOS_RETURN_IF_ERROR(passed);
  }
  return {};
}

bool SynchronousBatches::IsWorthALine() {
  const Clock::TimePoint now = Clock::Steady().Now();
  if (!log_at_) log_at_ = now + kLogInterval;
  if (now < *log_at_) return false;
  log_at_ = now + kLogInterval;
  return true;
}

Status SynchronousBatches::TakeOver(std::uint32_t epoch, const BatchOptions& options,
                                    const Wait& wait) {
  for (;;) {
    // A node that leaves before it has passed its rows on is left out.
    TFOS_ASSIGN_OR_RETURN(const StepGrant now,
                          Await(
                              epoch, [](const StepGrant&) { return true; }, wait));
    if (reader_.terminated()) break;
    const std::uint64_t rest = steps_.RestToTakeOver(now);
    const bool enough = rest == 0;
    if (!enough && IsWorthALine()) {
      LogWarning(
          "feed: waiting for {} rows of epoch {} of '{}' that other nodes pass on to this one",
          rest, epoch, queue_);
    }
    const auto patience = enough ? Clock::Duration::zero() : Clock::Duration(kCheckInterval);
    const Wait a_while{.deadline = Deadline::After(patience).Min(wait.deadline),
                       .check = wait.check};
    const Result<BatchReader::PassedRows> taken = reader_.TakePassed(options, epoch, a_while);
    if (taken.ok()) {
      rows_taken_over_ += taken->rows;
      steps_.OnTaken(taken->from, taken->rows);
    } else if (taken.status().kind() != ErrorKind::kRetryLater) {
      return taken.status();
    } else if (enough) {
      break;
    } else if (wait.deadline.passed()) {
      return taken.status();
    }
  }
  steps_.EndTaking();
  return {};
}

Result<BatchResult> SynchronousBatches::NextStep(Remainder remainder, const BatchOptions& options,
                                                 const Wait& wait) {
  if (dropping_) return EndEpoch(wait);
  TFOS_ASSIGN_OR_RETURN(const Step step, AwaitStep(options, wait));
  if (step.stops) return BatchResult(EndOfFeed{});
  if (steps_.IsOver(remainder, step.grant, step.ahead, options)) return EndEpoch(wait);
  Batch batch;
  if (step.ahead.rows > 0) {
    TFOS_ASSIGN_OR_RETURN(batch, NextBatch(step.ahead.rows, options, wait));
  } else {
    reader_.NoteEmptyBatch(step.ahead.epoch);
    steps_.OnBatch(0);
  }
  if (remainder == Remainder::kPad) {
    TFOS_ASSIGN_OR_RETURN(batch, PadBatch(std::move(batch), options));
  }
  return BatchResult(std::move(batch));
}

Result<Batch> SynchronousBatches::NextBatch(std::uint64_t ahead, const BatchOptions& options,
                                            const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(BatchResult next, reader_.Next(options, wait));
  auto* const batch = std::get_if<Batch>(&next);
  // Readers without a remainder take no turn here.
  if (batch == nullptr || batch->rows < std::min(ahead, options.rows)) {
    return reader_.ReadByOthers("the rows of a step");
  }
  steps_.OnBatch(batch->rows);
  return std::move(*batch);
}

void SynchronousBatches::BeginEpoch() {
  steps_.BeginEpoch();
  log_at_.reset();
}

Result<StepGrant> SynchronousBatches::Await(std::uint32_t epoch,
                                            const std::function<bool(const StepGrant&)>& enough,
                                            const Wait& wait) {
  const auto enough_or_over = [&](const StepGrant& known) {
    return enough(known) || reader_.terminated();
  };
  // An empty grant ends the wait of a node that gets no others any more.
  const auto check = [&] {
    if (reader_.terminated()) tickets_.OnGrant({.queue = queue_, .epoch = epoch, .missing = {}});
    return wait.check ? wait.check() : Status::Ok();
  };
  return tickets_.Await(queue_, epoch, enough_or_over, {.deadline = wait.deadline, .check = check});
}

Result<BatchResult> SynchronousBatches::EndEpoch(const Wait& wait) {
  dropping_ = true;  // Until the end has come, over several calls if they wait too long.
  TFOS_ASSIGN_OR_RETURN(BatchResult end, reader_.EndEpoch(wait));
  dropping_ = false;
  BeginEpoch();
  return end;
}

}  // namespace tfos::feed
