#include "feed/read/batch_reader.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace tfos::feed {
namespace {

/// How long no chunk may come before the feeder gets back the memory that batches refer to.
/// Shorter would copy for nothing whenever a feeder takes a breath.
constexpr std::chrono::milliseconds kKeepingPatience{50};

bool NothingCame(const Result<Next>& next) {
  return !next.ok() && next.status().kind() == ErrorKind::kRetryLater;
}

/// After so many chunks, what the lists of a column hold is for the program to say: it keeps all of
/// them, and there may never be an answer.
constexpr int kMostEmptyChunks = 16;

/// What the next call may not meet again: a deadline, a signal, a lack of memory.
bool MayPass(ErrorKind kind) {
  return kind == ErrorKind::kRetryLater || kind == ErrorKind::kInterrupted ||
         kind == ErrorKind::kNoResources;
}

}  // namespace

BatchReader::BatchReader(FeedServer& server, std::string queue, Converter converter)
    : server_(server), queue_(std::move(queue)), opener_(std::move(converter), server.pickles()) {
  opener_.KeepSources();  // A peek does not know what is to become of the rows.
}

Result<std::optional<std::vector<columns::BatchColumnType>>> BatchReader::Peek(
    std::span<const std::string> lists, const Wait& wait) {
  Status late;
  if (!turn_.Take(wait, late)) return late;
  const TurnHolder holder(turn_);
  TFOS_RETURN_IF_ERROR(FetchFirst(wait));
  for (int chunks = 0; !Known(lists) && !EpochOver();) {
    if (chunk_ == nullptr) {
      TFOS_RETURN_IF_ERROR(FetchUnlessFailed(wait));
    } else if (++chunks < kMostEmptyChunks) {
      TakeRows(chunk_->rows);
    } else {
      break;
    }
  }
  return types_;
}

Status BatchReader::FetchFirst(const Wait& wait) {
  while (chunk_ == nullptr && !sampled_ && !ended_) TFOS_RETURN_IF_ERROR(FetchUnlessFailed(wait));
  return {};
}

bool BatchReader::Known(std::span<const std::string> columns) const {
  return !types_ || std::ranges::all_of(*types_, [&](const columns::BatchColumnType& type) {
    return type.known() || std::ranges::find(columns, type.name) == columns.end();
  });
}

void BatchReader::SetTypes(std::vector<columns::BatchColumnType> types) {
  for (columns::BatchColumnType& type : types) {
    if (type.known() || !types_) continue;
    const auto before = std::ranges::find(*types_, type.name, &columns::BatchColumnType::name);
    if (before != types_->end()) type = *before;
  }
  types_ = std::move(types);
}

Result<BatchResult> BatchReader::Next(const BatchOptions& options, const Wait& wait) {
  if (options.rows == 0) return Status(ErrorKind::kBadInput, "a batch has at least one row");
  Status late;
  if (!turn_.Take(wait, late)) return late;
  const TurnHolder holder(turn_);
  BeginReading(looks_ahead_.value_or(false));
  TFOS_RETURN_IF_ERROR(FillPending(options, options.rows, wait));
  const bool last = pending_.rows() > 0 && !options.drop_remainder;
  if (pending_.rows() < options.rows && !last) return AtEnd();
  const auto log = [this, epoch = EpochOfPending()](std::vector<EpochLog::Part> parts) {
    log_.OnBatch(epoch, std::move(parts));
  };
  TFOS_ASSIGN_OR_RETURN(Batch batch, pending_.Take(options, opener_.pool(), log));
  return BatchResult(std::move(batch));
}

Status BatchReader::FillPending(const BatchOptions& options, std::uint64_t rows, const Wait& wait) {
  while (pending_.rows() < rows && !EpochOver()) {
    TFOS_RETURN_IF_ERROR(chunk_ != nullptr ? TakeFromChunk(options, rows)
                                           : FetchUnlessFailed(wait));
  }
  return {};
}

Status BatchReader::TakeFromChunk(const BatchOptions& options, std::uint64_t rows) {
  // Checked now rather than when the batch is full, which a wait may come before.
  TFOS_RETURN_IF_ERROR(chunk_->Check(options.columns));
  TakeRows(rows - pending_.rows());
  return {};
}

Result<BatchReader::Ahead> BatchReader::LookAhead(const BatchOptions& options,
                                                  std::uint64_t batches, const Wait& wait) {
  if (options.rows == 0) return Status(ErrorKind::kBadInput, "a batch has at least one row");
  Status late;
  if (!turn_.Take(wait, late)) return late;
  const TurnHolder holder(turn_);
  BeginReading(/*looks_ahead=*/true);
  TFOS_RETURN_IF_ERROR(FillPending(options, options.rows, wait));
  TFOS_RETURN_IF_ERROR(TakeWhatIsThere(options, batches * options.rows));
  return WhatIsAhead();
}

Result<BatchReader::Ahead> BatchReader::LookNow(const BatchOptions& options, std::uint64_t batches,
                                                const Wait& turn) {
  Status late;
  if (!turn_.Take(turn, late)) return late;
  const TurnHolder holder(turn_);
  BeginReading(/*looks_ahead=*/true);
  TFOS_RETURN_IF_ERROR(TakeWhatIsThere(options, batches * options.rows));
  return WhatIsAhead();
}

Status BatchReader::TakeWhatIsThere(const BatchOptions& options, std::uint64_t rows) {
  while (pending_.rows() < rows && !EpochOver()) {
    if (chunk_ != nullptr) {
      TFOS_RETURN_IF_ERROR(TakeFromChunk(options, rows));
      continue;
    }
    TFOS_RETURN_IF_ERROR(failure_);
    // Not Fetch: what it does while it waits, copying and giving memory back, is for a consumer
    // that can't go on without the next chunk.
    Result<feed::Next> next = NextOfQueue({.deadline = Deadline::After({})});
    if (NothingCame(next)) break;
    TFOS_RETURN_IF_ERROR(next.status());
    TFOS_RETURN_IF_ERROR(Remember(TakeNext(std::move(*next))));
  }
  return {};
}

Result<BatchResult> BatchReader::EndEpoch(const Wait& wait) {
  Status late;
  if (!turn_.Take(wait, late)) return late;
  const TurnHolder holder(turn_);
  for (;;) {
    DropPending();
    if (EpochOver()) return AtEnd();
    if (chunk_ != nullptr) {
      TakeRows(chunk_->rows);
    } else {
      TFOS_RETURN_IF_ERROR(FetchUnlessFailed(wait));
    }
  }
}

Result<std::optional<std::uint32_t>> BatchReader::EpochToBegin(const Wait& turn) {
  Status late;
  if (!turn_.Take(turn, late)) return late;
  const TurnHolder holder(turn_);
  if (rows_in_epoch_ || !epoch_ends_.empty()) return std::optional<std::uint32_t>();
  return std::optional(next_epoch_);
}

Status BatchReader::BeginAt(std::uint32_t epoch, const Wait& turn) {
  Status late;
  if (!turn_.Take(turn, late)) return late;
  const TurnHolder holder(turn_);
  next_epoch_ = epoch;
  std::erase_if(epoch_ends_, [epoch](std::uint32_t ended) { return ended < epoch; });
  return Status::Ok();
}

BatchReader::Ahead BatchReader::WhatIsAhead() const {
  return {.rows = pending_.rows(),
          .epoch_over = EpochOver(),
          .feed_over = epoch_ends_.empty() && chunk_ == nullptr && ended_ && !rows_in_epoch_,
          .epoch = EpochOfPending(),
          .passable_rows = pending_.passable_rows(),
          .until_read = pending_.until_read()};
}

Result<BatchReader::Ahead> BatchReader::LookToEnd(const BatchOptions& options, const Wait& wait) {
  Status late;
  if (!turn_.Take(wait, late)) return late;
  const TurnHolder holder(turn_);
  while (!EpochOver()) {
    if (chunk_ != nullptr) {
      TFOS_RETURN_IF_ERROR(TakeFromChunk(options, pending_.rows() + chunk_->rows));
      continue;
    }
    TFOS_RETURN_IF_ERROR(failure_);
    // Not Fetch: no feeder of this epoch waits for memory, and a copy could not be passed on.
    Result<feed::Next> next = NextOfQueue(wait);
    TFOS_RETURN_IF_ERROR(next.status());
    TFOS_RETURN_IF_ERROR(Remember(TakeNext(std::move(*next))));
  }
  return WhatIsAhead();
}

Status BatchReader::PassOn(std::uint64_t rows, const PassRows& pass, const Wait& wait) {
  Status late;
  if (!turn_.Take(wait, late)) return late;
  const TurnHolder holder(turn_);
  const std::uint32_t epoch = EpochOfPending();
  const auto passed = [&](EpochLog::Part part) { log_.OnPassed(epoch, std::move(part)); };
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t missing, pending_.PassOn(rows, pass, passed));
  if (missing == 0) return {};
  return ReadByOthers(
      fmt::format("{} rows that other nodes wait for at the end of an epoch", missing));
}

Status BatchReader::ReadByOthers(std::string_view rows) const {
  return {ErrorKind::kBadInput,
          fmt::format("{} of '{}' were read here: read a queue with one remainder= only", rows,
                      queue_)};
}

Result<BatchReader::PassedRows> BatchReader::TakePassed(const BatchOptions& options,
                                                        std::uint32_t epoch, const Wait& wait) {
  Status late;
  if (!turn_.Take(wait, late)) return late;
  const TurnHolder holder(turn_);
  if (!unopened_passed_ || unopened_epoch_ != epoch) {
    TFOS_ASSIGN_OR_RETURN(unopened_passed_, server_.NextPassed(queue_, epoch, wait));
    unopened_epoch_ = epoch;
  }
  const std::uint64_t first = unopened_passed_->first_item();
  const std::uint64_t rows = unopened_passed_->items();
  const std::uint32_t from = unopened_passed_->partition();
  const Result<ChunkOpener::Opened> opened = opener_.Open(*unopened_passed_);
  TFOS_RETURN_IF_ERROR(Remember(opened.status()));
  unopened_passed_.reset();
  const std::shared_ptr<const RowChunk>& chunk = opened->chunk;
  if (first > chunk->rows || rows > chunk->rows - first) {
    return Status(ErrorKind::kBadInput, fmt::format("rows [{}, {}) of a chunk of {} were passed on",
                                                    first, first + rows, chunk->rows));
  }
  TFOS_RETURN_IF_ERROR(Remember(chunk->Check(options.columns)));
  pending_.Add(chunk, first, rows);
  rows_in_epoch_ = true;
  return PassedRows{.from = from, .rows = rows};
}

Result<std::optional<std::vector<columns::BatchColumnType>>> BatchReader::KnownColumns(
    const Wait& wait) {
  Status late;
  if (!turn_.Take(wait, late)) return late;
  const TurnHolder holder(turn_);
  while (!types_ && !ended_) TFOS_RETURN_IF_ERROR(FetchUnlessFailed(wait));
  return types_;
}

void BatchReader::BeginReading(bool looks_ahead) {
  looks_ahead_ = looks_ahead;
  opener_.KeepSources(looks_ahead);
}

void BatchReader::DropPending() { dropped_rows_ += pending_.Drop(); }

BatchResult BatchReader::AtEnd() {
  DropPending();
  const bool had_rows = std::exchange(rows_in_epoch_, false);
  const bool is_whole = !epoch_ends_.empty();
  if (is_whole) {
    ++whole_epochs_;
    next_epoch_ = epoch_ends_.front();
    epoch_ends_.pop_front();
  } else if (!had_rows) {
    return EndOfFeed{};
  }
  ++epochs_;
  return EndOfEpoch{.epoch = next_epoch_++, .is_whole = is_whole};
}

void BatchReader::TakeRows(std::uint64_t count) {
  const std::uint64_t end = std::min(chunk_->rows, trained_before_.From(next_row_).end);
  count = std::min(count, end - next_row_);
  pending_.Add(chunk_, next_row_, count, unread_);
  rows_in_epoch_ = true;
  next_row_ += count;
  PassOverTrained();
}

void BatchReader::PassOverTrained() {
  const ItemRanges::Stretch stretch = trained_before_.From(next_row_);
  if (stretch.contained) next_row_ = stretch.end;
  if (next_row_ < chunk_->rows) return;
  chunk_.reset();
  unread_.reset();
}

Status BatchReader::FetchUnlessFailed(const Wait& wait) {
  TFOS_RETURN_IF_ERROR(failure_);
  return Remember(Fetch(wait));
}

Status BatchReader::Remember(Status status) {
  if (!status.ok() && !MayPass(status.kind())) {
    failure_ = status;
    // Nobody opens them again.
    unopened_.reset();
    unopened_passed_.reset();
  }
  return status;
}

Result<feed::Next> BatchReader::NextOfQueue(const Wait& wait) {
  if (unopened_) return feed::Next(*std::exchange(unopened_, std::nullopt));
  return server_.Next(queue_, wait);
}

/// Takes the next thing from the queue, when there is no chunk.
Status BatchReader::Fetch(const Wait& wait) {
  const auto within = [](Clock::Duration duration) {
    return Wait{.deadline = Deadline::After(duration)};
  };
  Result<feed::Next> next = NextOfQueue(within(Clock::Duration::zero()));
  // Rows that go on to count as unread are not lost with the node.
  if (NothingCame(next) && pending_.until_read())
    next = server_.Next(queue_, within(kKeepingPatience));
  if (NothingCame(next)) {
    // Whatever it holds itself is a feeder's memory.
    TFOS_RETURN_IF_ERROR(pending_.CopyFromFeeders(opener_, PendingArePromised()));
    if (opener_.HasLent()) {
      next = server_.Next(queue_, within(kKeepingPatience));
      if (NothingCame(next)) opener_.DetachLent();
    }
    if (NothingCame(next)) next = server_.Next(queue_, wait);
  }
  TFOS_RETURN_IF_ERROR(next.status());
  return TakeNext(std::move(*next));
}

Status BatchReader::TakeNext(feed::Next next) {
  if (auto* loan = std::get_if<ChunkLoan>(&next); loan != nullptr && loan->mode() == Mode::kTrain) {
    return TakeChunk(std::move(*loan));
  }
  if (const auto* end = std::get_if<EndOfEpoch>(&next)) {
    if (end->epoch >= next_epoch_) epoch_ends_.push_back(end->epoch);
    return Status::Ok();
  }
  if (std::holds_alternative<EndOfFeed>(next)) {
    ended_ = true;
    return Status::Ok();
  }
  return {ErrorKind::kBadInput,
          fmt::format("queue '{}' is fed by inference, whose rows want answers: read them with "
                      "ctx.data_feed(train=False)",
                      queue_)};
}

Status BatchReader::TakeChunk(ChunkLoan loan) {
  const bool sample = loan.is_sample();
  const std::uint64_t rows_read = loan.rows_read();
  ItemRanges trained_before = loan.trained_before();
  // Here until it is open, as that may fail or throw for want of memory.
  unopened_ = std::move(loan);
  TFOS_ASSIGN_OR_RETURN(ChunkOpener::Opened opened, opener_.Open(*unopened_));
  unopened_.reset();
  sampled_ = sample;
  if (opened.chunk->rows <= rows_read && !sample) return Status::Ok();
  SetTypes(opened.chunk->Types());
  if (sample) return Status::Ok();
  chunk_ = std::move(opened.chunk);
  unread_ = std::move(opened.unread);
  next_row_ = rows_read;
  trained_before_ = std::move(trained_before);
  PassOverTrained();
  return Status::Ok();
}

}  // namespace tfos::feed
