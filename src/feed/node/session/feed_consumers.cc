// FeedSessions, the side of those who take chunks and give results.

#include <fmt/ranges.h>

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/thread/guarded.h"
#include "feed/node/session/feed_sessions.h"

namespace tfos::feed {
namespace {

/// While it lives, a chunk is being copied to the cache.
///
/// Owner and lifetime: a local; borrows both. Threads: the one that holds the sessions' lock.
class Copying {
 public:
  Copying(Epochs& epochs, SessionTable& table) : epochs_(epochs), table_(table) {
    epochs_.BeginCopy();
  }
  ~Copying() {
    epochs_.EndCopy();
    table_.WakeConsumers();
  }
  Copying(const Copying&) = delete;
  Copying& operator=(const Copying&) = delete;

 private:
  Epochs& epochs_;
  SessionTable& table_;
};

}  // namespace

template <typename Call>
std::invoke_result_t<Call&> FeedSessions::WithoutLock(Call call) {
  std::optional<std::invoke_result_t<Call&>> result;
  ErrorKind thrown = ErrorKind::kBug;
  GiveUpTurn();
  Guarded([&] { result = call(); }, [&](ErrorKind kind, const char* /*what*/) { thrown = kind; });
  mutex_.Lock();
  if (result) return *std::move(result);
  return Status(thrown, thrown == ErrorKind::kNoResources ? "no memory" : "an exception");
}

Result<feed::Next> FeedSessions::Next(std::string_view queue_name, const Wait& wait) {
  // Before the lock: the last of an epoch that was kept goes with it, and that takes a while.
  std::optional<FeedQueue::Item> item;
  const Turn turn(*this);
  SessionTable::Queue* queue = table_.FindQueue(queue_name);
  if (queue == nullptr) {
    return Status(ErrorKind::kBadInput, fmt::format("the node has no queue '{}'; it has {}",
                                                    queue_name, fmt::join(options_.queues, ", ")));
  }
  bool waits = false;
  Status status;
  while (!(item = queue->epochs.Take()) && !table_.NothingComes(*queue)) {
    if (!std::exchange(waits, true)) table_.consumer_waits().Begin(Clock::Steady().Now());
    status = changed_.WaitRound(mutex_, wait, "no chunk came");
    if (!status.ok()) break;
  }
  if (waits) table_.consumer_waits().End(Clock::Steady().Now());
  if (!status.ok()) return status;
  if (!item) return feed::Next(EndOfFeed{});
  return Hand(queue->epochs, *item);
}

Result<ChunkLoan> FeedSessions::NextPassed(std::string_view queue_name, std::uint32_t epoch,
                                           const Wait& wait) {
  const Turn turn(*this);
  SessionTable::Queue* queue = table_.FindQueue(queue_name);
  if (queue == nullptr) {
    return Status(ErrorKind::kBadInput, fmt::format("the node has no queue '{}'", queue_name));
  }
  for (;;) {
    if (const std::optional<QueuedChunk> chunk = queue->passed.Take(epoch)) return Lend(*chunk);
    if (table_.phase() == FeedPhase::kClosed) {
      return Status(ErrorKind::kReconnect, "the node closed");
    }
    TFOS_RETURN_IF_ERROR(changed_.WaitRound(mutex_, wait, "no rows of other nodes came"));
  }
}

Result<feed::Next> FeedSessions::Hand(Epochs& epochs, const FeedQueue::Item& item) {
  if (const auto* end = std::get_if<FeedQueue::SessionEnd>(&item)) {
    return feed::Next(
        PartitionEnd{.session = end->session, .partition = end->partition, .broken = end->broken});
  }
  if (const auto* end = std::get_if<FeedQueue::EpochEnd>(&item)) {
    return feed::Next(EndOfEpoch{.epoch = end->epoch});
  }
  Result<ChunkLoan> loan = std::holds_alternative<FeedQueue::CachedChunk>(item)
                               ? LendCached(std::get<FeedQueue::CachedChunk>(item))
                               : LendAndCache(epochs, std::get<QueuedChunk>(item));
  if (!loan.ok()) return loan.status();
  return feed::Next(std::move(*loan));
}

ChunkLoan FeedSessions::Lend(const QueuedChunk& chunk) {
  table_.CountOut(chunk);
  const FeedSession& session = *table_.Of(chunk.session);
  if (session.options.mode == Mode::kTrain) table_.counters().taken_items += chunk.items;
  table_.TellProgress();
  return ChunkLoan(shared_from_this(), chunk,
                   {.key = session.options.key,
                    .attempt = session.options.attempt,
                    .mode = session.options.mode,
                    .until_read = session.options.until_read});
}

Result<ChunkLoan> FeedSessions::LendCached(const FeedQueue::CachedChunk& chunk) {
  Result<CachedEpoch::Chunk> read = WithoutLock([&] { return chunk.epoch->Read(chunk.index); });
  if (!read.ok()) return CacheFailed(read.status());
  table_.counters().replayed_items += read->items;
  table_.TellProgress();
  return ChunkLoan(std::move(*read));
}

/// To consumers and feeders alike, now and later: rows of the epoch are lost to the node. Not a
/// reason to try again, whatever the file system says.
Status FeedSessions::CacheFailed(const Status& cause) {
  const Status status(
      ErrorKind::kBadInput,
      fmt::format("train(cache=...) can't keep the rows of the epoch: {}", cause.ToString()));
  table_.Fail(status.message());
  return status;
}

Result<ChunkLoan> FeedSessions::LendAndCache(Epochs& epochs, const QueuedChunk& chunk) {
  const std::shared_ptr<CachedEpoch> cache = table_.Of(chunk.session)->cache;
  ChunkLoan loan = Lend(chunk);
  if (cache == nullptr) return loan;
  const Copying copying(epochs, table_);
  const Status kept = WithoutLock([&] {
    // A loan that ends takes the lock itself.
    ChunkLoan copied = std::move(loan);
    Status added = cache->Add(copied.bytes(), copied.items());
    if (added.ok()) loan = std::move(copied);
    return added;
  });
  if (!kept.ok()) return CacheFailed(kept);
  return loan;
}

Result<Delivery> FeedSessions::SendResult(std::uint64_t session_id, std::uint64_t rows,
                                          AlignedBuffer chunk, const Wait& wait) {
  if (chunk.size() > options_.result_limit_bytes) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a result of {} bytes for {} rows; at most {} bytes fit",
                              chunk.size(), rows, options_.result_limit_bytes));
  }
  const std::uint64_t bytes = chunk.size();
  OutFrame frame{.bytes = EncodeResultHead(rows, static_cast<std::uint32_t>(bytes)),
                 .result = std::move(chunk)};
  const Turn turn(*this);
  for (;;) {
    const SessionPointer session = table_.FindOpen(session_id);
    if (session == nullptr) return Delivery::kDiscarded;
    if (session->options.mode != Mode::kInference) {
      return Status(ErrorKind::kBadInput, "a training partition takes no results");
    }
    if (session->unread_result_bytes == 0 ||
        session->unread_result_bytes + bytes <= options_.result_queue_bytes) {
      session->unread_result_bytes += bytes;
      session->rows_answered += rows;
      table_.counters().result_rows += rows;
      table_.counters().result_bytes += bytes;
      table_.outgoing().Post(*session->link, std::move(frame));
      table_.TellProgress();
      return Delivery::kSent;
    }
    TFOS_RETURN_IF_ERROR(changed_.WaitRound(
        mutex_, wait,
        fmt::format("the feeder of partition {} took no results", session->options.key.partition)));
  }
}

Result<Delivery> FeedSessions::FinishSession(std::uint64_t session_id, std::uint64_t rows) {
  const Turn turn(*this);
  const SessionPointer session = table_.FindOpen(session_id);
  if (session == nullptr) return Delivery::kDiscarded;
  if (session->phase != SessionPhase::kEnding) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("partition {} was finished before its feeder ended it",
                              session->options.key.partition));
  }
  Outgoing& outgoing = table_.outgoing();
  if (session->rows_answered != rows) {
    const Status mismatch(
        ErrorKind::kBadInput,
        fmt::format("partition {} has {} rows, and {} results were given",
                    session->options.key.partition, rows, session->rows_answered));
    outgoing.PostLast(*session->link, EncodeError(mismatch.message()));
    table_.End(session, /*orderly=*/false);
    return mismatch;
  }
  outgoing.Post(*session->link,
                {.bytes = Encode(EndedMessage{.items = session->items, .rows = rows})});
  table_.End(session, /*orderly=*/true);
  return Delivery::kSent;
}

// ---------------------------------------------------------------------------------------------
// For loans.

Result<PrivateView> FeedSessions::MapPrivately(const QueuedChunk& chunk) const {
  std::shared_ptr<Region> region;
  {
    const MutexLock lock(mutex_);
    region = table_.Of(chunk.session)->region;
  }
  return region->MapPrivately(chunk.bytes);
}

void FeedSessions::MarkRead(std::uint64_t session, std::uint64_t number, std::uint64_t rows) {
  const Turn turn(*this);
  table_.RecordRead(table_.Of(session), number, rows);
}

void FeedSessions::Release(std::uint64_t session_id, std::uint64_t number) {
  const Turn turn(*this);
  const SessionPointer session = table_.Of(session_id);
  table_.RecordRead(session, number, ReadTracker::kAllRows);
  table_.ReleaseBlock(*session, number);
}

}  // namespace tfos::feed
