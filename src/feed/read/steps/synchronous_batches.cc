#include "feed/read/steps/synchronous_batches.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <utility>

#include "base/logging.h"
#include "base/text/choice.h"
#include "base/thread/mutex.h"
#include "feed/read/steps/pad_batch.h"

namespace tfos::feed {
namespace {

/// What a node takes from its queue at once to tell how many batches it can make: enough for the
/// answer to be there when they are wanted, and little of a queue that may be long.
constexpr std::uint64_t kBatchesAhead = 16;

/// After so long a wait it is worth a line what is waited for, and again after as much.
constexpr std::chrono::seconds kLogInterval{15};

constexpr Choice<Remainder> kRemainders[] = {
    {"join", Remainder::kJoin}, {"drop", Remainder::kDrop}, {"pad", Remainder::kPad}};

/// Until it is time to try again.
Status Pause(const Wait& wait) {
  Mutex mutex;
  CondVar never;
  const MutexLock lock(mutex);
  return never.WaitRound(mutex, wait, "rows could not be passed on");
}

}  // namespace

Result<Remainder> RemainderFrom(std::string_view name) {
  if (name == "none") return Remainder::kNone;
  return ChoiceNamed("remainder", kRemainders, name);
}

SynchronousBatches::SynchronousBatches(BatchReader& reader, StepDesk& tickets, std::string queue)
    : reader_(reader), tickets_(tickets), queue_(std::move(queue)) {}

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
  if (remainder == Remainder::kJoin) return NextOrJoin(options, wait);
  BatchOptions full = options;
  full.drop_remainder = false;
  return remainder == Remainder::kDrop ? NextOrDrop(full, wait) : NextOrPad(full, wait);
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
    // Also when it has no more itself: no node is more than an epoch ahead of another one.
    const auto enough = [&, made = made_](const StepGrant& known) {
      return known.granted > made || known.final || (known.ending && !ahead.epoch_over);
    };
    // What is passed on is known to the coordinator: it has said it.
    if (!passed_on_ && rows_there_.empty()) {
      const bool waits = tickets_.tells_waits() && !tickets_.Has(queue_, ahead.epoch, enough);
      TFOS_RETURN_IF_ERROR(tickets_.Report(ReportOf(ahead, options, waits)));
    }
    const auto is_asked = [&, looked = looked_] { return tickets_.look() != looked; };
    TFOS_ASSIGN_OR_RETURN(
        const StepGrant grant,
        Await(
            ahead.epoch, [&](const StepGrant& known) { return enough(known) || is_asked(); },
            wait));
    // Nothing is granted to a node that wants no more rows.
    if (!enough(grant) && reader_.terminated()) {
      return Step{.ahead = ahead, .grant = grant, .stops = true};
    }
    if (!enough(grant) && is_asked()) {
      looked_ = tickets_.look();
      TFOS_ASSIGN_OR_RETURN(ahead, reader_.LookAhead(options, kBatchesAhead, wait));
      continue;
    }
    // What is left of the epoch stays unread.
    if (grant.stopped() && grant.granted <= made_) {
      return Step{.ahead = ahead, .grant = grant, .stops = true};
    }
    if (grant.final && !passed_on_) {
      TFOS_RETURN_IF_ERROR(reader_.LookToEnd(options, wait).status());
      TFOS_RETURN_IF_ERROR(PassOn(grant, wait));
      TFOS_ASSIGN_OR_RETURN(ahead, reader_.LookToEnd(options, wait));
    }
    // No earlier: the node that passes rows on may be in a step that this one can make, and come to
    // it afterwards.
    if (grant.final && !taken_over_ && ahead.rows < options.rows) {
      TFOS_RETURN_IF_ERROR(TakeOver(grant.epoch, options, wait));
      TFOS_ASSIGN_OR_RETURN(ahead, reader_.LookToEnd(options, wait));
    }
    if (grant.granted > made_ || grant.final) return Step{.ahead = ahead, .grant = grant};
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
    TFOS_RETURN_IF_ERROR(tickets_.Report(ReportOf(now, options, true)));
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

StepReport SynchronousBatches::ReportOf(const BatchReader::Ahead& ahead,
                                        const BatchOptions& options, bool waits) const {
  return {.queue = queue_,
          .epoch = ahead.epoch,
          .full_batches = made_ + ahead.rows / options.rows,
          .ended = ahead.epoch_over,
          .batches = made_ + (ahead.rows + options.rows - 1) / options.rows,
          .rows = rows_made_ + ahead.rows,
          .passable_rows = ahead.until_read ? 0 : ahead.passable_rows,
          .batch_rows = options.rows,
          .made = made_,
          .waits = waits,
          .looked = looked_};
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
  passed_on_ = true;
  return {};
}

Status SynchronousBatches::PassRest(const StepGrant& grant, const Wait& wait) {
  const std::uint32_t self = reader_.node_id();
  const StepDesk::Passer passer = tickets_.passer();
  if (!passer) return {};
  const auto check = [&] {
    if (reader_.terminated()) return Status(ErrorKind::kReconnect, "the feed is over here");
    return wait.check ? wait.check() : Status::Ok();
  };
  for (const RowPass& pass : grant.passes) {
    if (pass.from != self) continue;
    std::uint64_t& rows_there = rows_there_[pass.to.node_id];
    if (rows_there >= pass.rows) continue;
    std::uint64_t pieces = pieces_passed_on_;
    const auto bring = [&](std::span<const std::byte> chunk, const ItemRange& rows) -> Status {
      TFOS_RETURN_IF_ERROR(passer(
          grant, pass, {.chunk = chunk, .rows = rows, .number = pieces + 1, .check = check}));
      ++pieces;
      rows_there += rows.items();
      rows_passed_on_ += rows.items();
      return {};
    };
    const Status passed = reader_.PassOn(pass.rows - rows_there, bring, wait);
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
  const std::uint32_t self = reader_.node_id();
  for (;;) {
    // A node that leaves before it has passed its rows on is left out.
    TFOS_ASSIGN_OR_RETURN(const StepGrant now,
                          Await(
                              epoch, [](const StepGrant&) { return true; }, wait));
    std::uint64_t expected = 0;
    for (const RowPass& pass : now.passes) {
      if (pass.to.node_id == self) expected += pass.rows;
    }
    if (reader_.terminated()) break;
    // Also what came of a node that has left since.
    const std::uint64_t taken_over = rows_taken_over_ - taken_before_epoch_;
    const bool enough = taken_over >= expected;
    if (!enough && IsWorthALine()) {
      LogWarning(
          "feed: waiting for {} rows of epoch {} of '{}' that other nodes pass on to this one",
          expected - taken_over, epoch, queue_);
    }
    const auto patience = enough ? Clock::Duration::zero() : Clock::Duration(kCheckInterval);
    const Wait a_while{.deadline = Deadline::After(patience).Min(wait.deadline),
                       .check = wait.check};
    const Result<std::uint64_t> taken = reader_.TakePassed(options, epoch, a_while);
    if (taken.ok()) {
      rows_taken_over_ += *taken;
    } else if (taken.status().kind() != ErrorKind::kRetryLater) {
      return taken.status();
    } else if (enough) {
      break;
    } else if (wait.deadline.passed()) {
      return taken.status();
    }
  }
  taken_over_ = true;
  return {};
}

Result<BatchResult> SynchronousBatches::NextOrJoin(const BatchOptions& options, const Wait& wait) {
  if (dropping_) return EndEpoch(wait);
  TFOS_ASSIGN_OR_RETURN(const Step step, AwaitStep(options, wait));
  if (step.stops) return BatchResult(EndOfFeed{});
  // Less than a full batch is left only at the epoch's end, when the rows are as even as can be.
  const std::uint64_t least = options.drop_remainder ? options.rows : 1;
  if (step.ahead.feed_over || step.ahead.rows < least) return EndEpoch(wait);
  TFOS_ASSIGN_OR_RETURN(Batch batch, NextBatch(step.ahead.rows, options, wait));
  return BatchResult(std::move(batch));
}

Result<BatchResult> SynchronousBatches::NextOrDrop(const BatchOptions& options, const Wait& wait) {
  if (dropping_) return EndEpoch(wait);
  TFOS_ASSIGN_OR_RETURN(const Step step, AwaitStep(options, wait));
  if (step.stops) return BatchResult(EndOfFeed{});
  if (step.ahead.rows < options.rows || step.grant.granted <= made_) return EndEpoch(wait);
  TFOS_ASSIGN_OR_RETURN(Batch batch, NextBatch(step.ahead.rows, options, wait));
  return BatchResult(std::move(batch));
}

Result<BatchResult> SynchronousBatches::NextOrPad(const BatchOptions& options, const Wait& wait) {
  if (dropping_) return EndEpoch(wait);
  TFOS_ASSIGN_OR_RETURN(const Step step, AwaitStep(options, wait));
  if (step.stops) return BatchResult(EndOfFeed{});
  if (step.ahead.feed_over || (step.grant.granted <= made_ && step.grant.longest <= made_)) {
    return EndEpoch(wait);
  }
  Batch batch;
  if (step.ahead.rows > 0) {
    TFOS_ASSIGN_OR_RETURN(batch, NextBatch(step.ahead.rows, options, wait));
  } else {
    ++made_;
  }
  TFOS_ASSIGN_OR_RETURN(Batch padded, PadBatch(std::move(batch), options));
  return BatchResult(std::move(padded));
}

Result<Batch> SynchronousBatches::NextBatch(std::uint64_t ahead, const BatchOptions& options,
                                            const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(BatchResult next, reader_.Next(options, wait));
  auto* const batch = std::get_if<Batch>(&next);
  // Readers without a remainder take no turn here.
  if (batch == nullptr || batch->rows < std::min(ahead, options.rows)) {
    return reader_.ReadByOthers("the rows of a step");
  }
  ++made_;
  rows_made_ += batch->rows;
  return std::move(*batch);
}

void SynchronousBatches::BeginEpoch() {
  made_ = 0;
  rows_made_ = 0;
  passed_on_ = false;
  taken_over_ = false;
  rows_there_.clear();
  log_at_.reset();
  taken_before_epoch_ = rows_taken_over_;
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
