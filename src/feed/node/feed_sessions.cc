#include "feed/node/feed_sessions.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/logging.h"
#include "feed/wire/read_position.h"
#include "feed/wire/ring.h"

namespace tfos::feed {
namespace {

/// How often feeders hear at most that the program consumes. Their timeouts are longer.
constexpr std::chrono::seconds kProgressInterval{1};
/// Epochs without a row for this node, and of whose end it has not heard, before one with some.
constexpr std::uint64_t kMostEpochsAhead = 1 << 16;
/// No partition has more; keeps sums of what feeders claim from overflowing.
constexpr std::uint64_t kItemsLimit = std::uint64_t{1} << 56;

enum class SessionPhase {
  kWaiting,  ///< OPEN came; memory is not granted yet.
  kOpen,     ///< Chunks may come.
  kGrowing,  ///< GROW came; memory is not granted yet.
  kEnding,   ///< END came; rows are being answered, or read.
  kOver,     ///< Nothing more is said about it. Chunks may still be lent out.
};

}  // namespace

/// One partition being fed. Guarded by the lock of the sessions.
struct FeedSession {
  std::uint64_t id = 0;
  SessionOptions options;
  SessionPhase phase = SessionPhase::kWaiting;
  FeederLink* link = nullptr;          ///< Null once its connection is gone.
  std::shared_ptr<CachedEpoch> cache;  ///< Null unless its epoch will be replayed.
  std::unique_ptr<Region> region;      ///< Null while waiting, and when over and all released.
  Ring ring{0};
  ReadTracker reads;     ///< Only if it lasts until all is read.
  bool orderly = false;  ///< Over: as it should, so that the region can be used again.
  std::uint64_t items = 0;
  std::uint64_t rows_answered = 0;
  std::uint64_t unread_result_bytes = 0;
};

Result<std::shared_ptr<FeedSessions>> FeedSessions::Create(FeedServerOptions options) {
  if (options.queues.empty() || options.region_bytes == 0 || options.region_bytes > kDataLimit ||
      options.memory_budget_bytes == 0) {
    return Status(ErrorKind::kBadInput, "a feed server needs a queue, memory and a region size");
  }
  options.region_bytes = std::min(options.region_bytes, options.memory_budget_bytes);
  UniqueFd wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return Status::FromErrno(errno, "create an event descriptor");
  return std::shared_ptr<FeedSessions>(new FeedSessions(std::move(options), std::move(wake)));
}

FeedSessions::FeedSessions(FeedServerOptions options, UniqueFd wake)
    : options_(std::move(options)),
      wake_(std::move(wake)),
      pool_(options_.memory_budget_bytes),
      cache_account_(std::make_shared<CacheAccount>(options_.cache_memory_bytes)) {
  for (const std::string& queue : options_.queues) queues_.try_emplace(queue);
}

FeedSessions::Queue& FeedSessions::QueueOf(const FeedSession& session) {
  return queues_.find(session.options.queue)->second;
}

bool FeedSessions::IsCurrent(const FeedSession& session) {
  return QueueOf(session).chunks.current() == session.id;
}

// ---------------------------------------------------------------------------------------------
// For consumers.

Status FeedSessions::WaitOn(Lock& lock, const Wait& wait, std::string_view what) {
  if (wait.deadline.passed()) {
    return {ErrorKind::kRetryLater, fmt::format("{} within the deadline", what)};
  }
  changed_.wait_for(lock, std::min<Clock::Duration>(wait.deadline.Remaining(), kCheckInterval));
  if (!wait.check) return {};
  lock.unlock();
  Status status = wait.check();
  lock.lock();
  return status;
}

Result<feed::Next> FeedSessions::Next(std::string_view queue_name, const Wait& wait) {
  Lock lock(mutex_);
  const auto found = queues_.find(queue_name);
  if (found == queues_.end()) {
    return Status(ErrorKind::kBadInput, fmt::format("the node has no queue '{}'; it has {}",
                                                    queue_name, fmt::join(options_.queues, ", ")));
  }
  Queue& queue = found->second;
  std::optional<Clock::TimePoint> waiting_since;
  const auto count_wait = [&] {
    if (waiting_since) counters_.consumer_wait += Clock::Steady().Now() - *waiting_since;
  };
  for (;;) {
    // Another consumer may still be copying what a replay begins with.
    const bool cache_incomplete = queue.chunks.at_replay() && queue.being_cached > 0;
    if (std::optional<FeedQueue::Item> item;
        !cache_incomplete && (item = queue.chunks.Take()).has_value()) {
      count_wait();
      if (const auto* end = std::get_if<FeedQueue::SessionEnd>(&*item)) {
        return feed::Next(PartitionEnd{
            .session = end->session, .partition = end->partition, .broken = end->broken});
      }
      if (const auto* end = std::get_if<FeedQueue::EpochEnd>(&*item)) {
        return feed::Next(EndOfEpoch{.epoch = end->epoch});
      }
      Result<ChunkLoan> loan = std::holds_alternative<FeedQueue::CachedChunk>(*item)
                                   ? LendCached(lock, std::get<FeedQueue::CachedChunk>(*item))
                                   : LendAndCache(lock, queue, std::get<QueuedChunk>(*item));
      if (!loan.ok()) return loan.status();
      return feed::Next(std::move(*loan));
    }
    const bool ended = feed_over_ && queue.open_sessions == 0 && !cache_incomplete;
    if (ended || terminated_ || failure_ || closed_) {
      count_wait();
      return feed::Next(EndOfFeed{});
    }
    if (!waiting_since) waiting_since = Clock::Steady().Now();
    if (Status status = WaitOn(lock, wait, "no chunk came"); !status.ok()) {
      count_wait();
      return status;
    }
  }
}

Result<ChunkLoan> FeedSessions::NextPassed(std::string_view queue_name, std::uint32_t epoch,
                                           const Wait& wait) {
  Lock lock(mutex_);
  const auto found = queues_.find(queue_name);
  if (found == queues_.end()) {
    return Status(ErrorKind::kBadInput, fmt::format("the node has no queue '{}'", queue_name));
  }
  auto& passed = found->second.passed;
  for (;;) {
    if (const auto of_epoch = passed.find(epoch); of_epoch != passed.end()) {
      const QueuedChunk chunk = of_epoch->second.front();
      of_epoch->second.pop_front();
      if (of_epoch->second.empty()) passed.erase(of_epoch);
      return Lend(chunk);
    }
    if (closed_) return Status(ErrorKind::kReconnect, "the node closed");
    TFOS_RETURN_IF_ERROR(WaitOn(lock, wait, "no rows of other nodes came"));
  }
}

ChunkLoan FeedSessions::Lend(const QueuedChunk& chunk) {
  CountOut(chunk);
  const FeedSession& session = *sessions_.find(chunk.session)->second;
  if (session.options.mode == Mode::kTrain) counters_.taken_items += chunk.items;
  TellProgress();
  return ChunkLoan(shared_from_this(), chunk,
                   {.partition = session.options.key.partition,
                    .mode = session.options.mode,
                    .until_read = session.options.until_read});
}

Result<ChunkLoan> FeedSessions::LendCached(Lock& lock, const FeedQueue::CachedChunk& chunk) {
  lock.unlock();  // It may be in a file.
  Result<CachedEpoch::Chunk> read = chunk.epoch->Read(chunk.index);
  lock.lock();
  if (!read.ok()) return CacheFailed(read.status());
  counters_.replayed_items += read->items;
  TellProgress();
  return ChunkLoan(std::move(*read));
}

/// To consumers and feeders alike, now and later: rows of the epoch are lost to the node. Not a
/// reason to try again, whatever the file system says.
Status FeedSessions::CacheFailed(const Status& cause) {
  const Status status(
      ErrorKind::kBadInput,
      fmt::format("train(cache=...) can't keep the rows of the epoch: {}", cause.ToString()));
  if (!failure_) {
    failure_ = status.message();
    StopAll(EncodeError(*failure_));
  }
  return status;
}

/// Lends the chunk, and keeps a copy if its epoch is to be replayed.
Result<ChunkLoan> FeedSessions::LendAndCache(Lock& lock, Queue& queue, const QueuedChunk& chunk) {
  const std::shared_ptr<CachedEpoch> cache = sessions_.find(chunk.session)->second->cache;
  ChunkLoan loan = Lend(chunk);
  if (cache == nullptr) return loan;
  ++queue.being_cached;
  lock.unlock();
  const Status kept = cache->Add(loan.bytes(), loan.items());
  if (!kept.ok()) loan.Release();  // Takes the lock itself.
  lock.lock();
  --queue.being_cached;
  changed_.notify_all();
  if (!kept.ok()) return CacheFailed(kept);
  return loan;
}

/// For feeders that wait for others: by what they see of their own partition, the node is idle.
void FeedSessions::TellProgress() {
  const Clock::TimePoint now = options_.progress_clock->Now();
  if (progress_told_ && now - *progress_told_ < kProgressInterval) return;
  progress_told_ = now;
  for (const auto& [id, session] : sessions_) {
    if (session->phase != SessionPhase::kOver) {
      Post(*session->link, {.bytes = EncodeProgress()});
    }
  }
}

void FeedSessions::CountOut(const QueuedChunk& chunk) {
  --counters_.queued_chunks;
  counters_.queued_bytes -= chunk.bytes.size();
}

FeedSessions::SessionPointer FeedSessions::FindOpen(std::uint64_t id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() || it->second->phase == SessionPhase::kOver ? nullptr : it->second;
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
  Lock lock(mutex_);
  for (;;) {
    const SessionPointer session = FindOpen(session_id);
    if (session == nullptr) return Delivery::kDiscarded;
    if (session->options.mode != Mode::kInference) {
      return Status(ErrorKind::kBadInput, "a training partition takes no results");
    }
    if (session->unread_result_bytes == 0 ||
        session->unread_result_bytes + bytes <= options_.result_queue_bytes) {
      session->unread_result_bytes += bytes;
      session->rows_answered += rows;
      counters_.result_rows += rows;
      counters_.result_bytes += bytes;
      Post(*session->link, std::move(frame));
      TellProgress();
      return Delivery::kSent;
    }
    TFOS_RETURN_IF_ERROR(WaitOn(
        lock, wait,
        fmt::format("the feeder of partition {} took no results", session->options.key.partition)));
  }
}

Result<Delivery> FeedSessions::FinishSession(std::uint64_t session_id, std::uint64_t rows) {
  const Lock lock(mutex_);
  const SessionPointer session = FindOpen(session_id);
  if (session == nullptr) return Delivery::kDiscarded;
  if (session->phase != SessionPhase::kEnding) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("partition {} was finished before its feeder ended it",
                              session->options.key.partition));
  }
  if (session->rows_answered != rows) {
    const Status mismatch(
        ErrorKind::kBadInput,
        fmt::format("partition {} has {} rows, and {} results were given",
                    session->options.key.partition, rows, session->rows_answered));
    PostLast(*session->link, EncodeError(mismatch.message()));
    EndSession(session, /*orderly=*/false);
    return mismatch;
  }
  Post(*session->link, {.bytes = Encode(EndedMessage{.items = session->items, .rows = rows})});
  EndSession(session, /*orderly=*/true);
  return Delivery::kSent;
}

void FeedSessions::EndEpoch(std::string_view queue, std::uint32_t epoch) {
  const Lock lock(mutex_);
  const auto found = queues_.find(queue);
  if (found != queues_.end()) EndEpochsBefore(found->second, std::uint64_t{epoch} + 1);
}

void FeedSessions::EndEpochsBefore(Queue& queue, std::uint64_t epoch) {
  if (terminated_ || failure_ || closed_) return;
  while (queue.epoch < epoch) {
    const auto ended = static_cast<std::uint32_t>(queue.epoch++);
    queue.chunks.PushEpochEnd(ended);
    const auto cached = queue.cached.find(ended);
    if (cached == queue.cached.end()) continue;
    // Its epochs end by themselves.
    queue.chunks.PushReplay(cached->second.epoch, cached->second.options, ended + 1);
    queue.epoch += cached->second.options.epochs;
    queue.cached.erase(cached);
  }
  changed_.notify_all();
}

void FeedSessions::EndFeed() {
  const Lock lock(mutex_);
  feed_over_ = true;
  for (const MemoryRequest& request : std::exchange(memory_requests_, {})) {
    if (request.session->phase != SessionPhase::kWaiting) {
      memory_requests_.push_back(request);
      continue;
    }
    PostLast(*request.session->link, Encode(OpenedMessage{.status = OpenStatus::kFeedOver}));
    EndSession(request.session, /*orderly=*/true);
  }
  changed_.notify_all();
}

void FeedSessions::Terminate() {
  const Lock lock(mutex_);
  if (std::exchange(terminated_, true)) return;
  feed_over_ = true;
  StopAll(EncodeStop());
}

bool FeedSessions::terminated() const {
  const Lock lock(mutex_);
  return terminated_;
}

void FeedSessions::Fail(std::string_view text) {
  const Lock lock(mutex_);
  if (failure_) return;
  failure_ = text;
  StopAll(EncodeError(text));
}

void FeedSessions::Close() {
  const Lock lock(mutex_);
  closed_ = true;
  feed_over_ = true;
  std::vector<SessionPointer> all;
  for (const auto& [id, session] : sessions_) all.push_back(session);
  for (const SessionPointer& session : all) EndSession(session, /*orderly=*/false);
  for (auto& [name, queue] : queues_) {
    ReleaseAll(queue.chunks.Clear());
    ReleasePassed(queue);
  }
  changed_.notify_all();
  Wake();
}

bool FeedSessions::closed() const {
  const Lock lock(mutex_);
  return closed_;
}

FeedCounters FeedSessions::counters() const {
  const Lock lock(mutex_);
  FeedCounters snapshot = counters_;
  snapshot.region_bytes_in_use = pool_.bytes_in_use();
  snapshot.cache_memory_bytes = cache_account_->memory_bytes();
  snapshot.cache_file_bytes = cache_account_->file_bytes();
  return snapshot;
}

Result<PrivateView> FeedSessions::MapPrivately(const QueuedChunk& chunk) const {
  const Lock lock(mutex_);
  return sessions_.find(chunk.session)->second->region->MapPrivately(chunk.bytes);
}

void FeedSessions::MarkRead(std::uint64_t session, std::uint64_t number, std::uint64_t rows) {
  const Lock lock(mutex_);
  RecordRead(sessions_.find(session)->second, number, rows);
}

void FeedSessions::Release(std::uint64_t session_id, std::uint64_t number) {
  const Lock lock(mutex_);
  const SessionPointer session = sessions_.find(session_id)->second;
  RecordRead(session, number, ReadTracker::kAllRows);
  ReleaseBlock(*session, number);
}

// ---------------------------------------------------------------------------------------------
// Sessions and their memory. All of it needs the lock.

void FeedSessions::StopAll(const std::string& last_frame) {
  std::vector<SessionPointer> open;
  for (const auto& [id, session] : sessions_) {
    if (session->phase != SessionPhase::kOver) open.push_back(session);
  }
  for (const SessionPointer& session : open) {
    PostLast(*session->link, last_frame);
    EndSession(session, /*orderly=*/false);
  }
  for (auto& [name, queue] : queues_) {
    ReleaseAll(queue.chunks.Clear());
    ReleasePassed(queue);
    queue.cached.clear();
  }
  changed_.notify_all();
}

void FeedSessions::EndSession(SessionPointer session, bool orderly) {
  if (session->phase == SessionPhase::kOver) return;
  Queue& queue = QueueOf(*session);
  const bool waiting = session->phase == SessionPhase::kWaiting;
  session->phase = SessionPhase::kOver;
  session->orderly = orderly;
  std::erase_if(memory_requests_,
                [&](const MemoryRequest& request) { return request.session == session; });
  --queue.open_sessions;
  --counters_.open_sessions;
  // What a broken training session brought was accepted and is still consumed. The rows of a
  // broken inference session are asked again by Spark.
  if (!orderly && !waiting && session->options.mode == Mode::kInference) {
    ReleaseAll(queue.chunks.BreakSession(session->id));
  }
  // Who waits until all is read brings the rest again, here or elsewhere.
  if (!orderly && session->options.until_read) Withdraw(*session);
  Retire(*session);
  changed_.notify_all();
}

void FeedSessions::Withdraw(FeedSession& session) {
  const std::vector<QueuedChunk> chunks = QueueOf(session).chunks.WithdrawTrain(session.id);
  for (const QueuedChunk& chunk : chunks) {
    ledger_.Remove(session.options.key, {chunk.first, chunk.first + chunk.items});
    counters_.withdrawn_items += chunk.items;
  }
  ReleaseAll(chunks);
}

void FeedSessions::RecordRead(const SessionPointer& session, std::uint64_t number,
                              std::uint64_t rows) {
  if (!session->options.until_read || session->phase == SessionPhase::kOver) return;
  session->reads.Read(number, rows);
  session->region->read_position().store(session->reads.position().Packed(),
                                         std::memory_order_release);
  if (session->phase == SessionPhase::kEnding && session->reads.all_read()) EndTraining(session);
}

void FeedSessions::EndTraining(const SessionPointer& session) {
  Post(*session->link, {.bytes = Encode(EndedMessage{.items = session->items})});
  EndSession(session, /*orderly=*/true);
  if (session->region == nullptr) return;
  // Chunks that are still in use keep it. Many small partitions must not fill the budget with
  // memory that they never used.
  pool_.Trim(*session->region, session->ring.used());
  GrantMemory();
}

void FeedSessions::ReleaseAll(const std::vector<QueuedChunk>& chunks) {
  for (const QueuedChunk& chunk : chunks) {
    CountOut(chunk);
    ReleaseBlock(*sessions_.find(chunk.session)->second, chunk.number);
  }
}

void FeedSessions::ReleasePassed(Queue& queue) {
  for (const auto& [epoch, chunks] : std::exchange(queue.passed, {})) {
    ReleaseAll({chunks.begin(), chunks.end()});
  }
}

void FeedSessions::ReleaseBlock(FeedSession& session, std::uint64_t number) {
  const std::size_t freed = session.ring.Release(number);
  if (freed == 0) return;
  if (session.phase == SessionPhase::kOver) {
    Retire(session);
  } else {
    session.link->credits += static_cast<std::uint32_t>(freed);
    MarkDirty(*session.link);
  }
}

void FeedSessions::Retire(FeedSession& session) {
  if (session.phase != SessionPhase::kOver || session.ring.in_flight() > 0) return;
  if (session.region != nullptr) {
    // What a feeder reads there when it finds this node dead must not be of another session.
    pool_.GiveBack(std::move(session.region), session.orderly && !session.options.until_read);
  }
  sessions_.erase(session.id);  // May destroy `session`.
  GrantMemory();
}

void FeedSessions::RequestMemory(const SessionPointer& session, std::uint64_t bytes) {
  memory_requests_.push_back({session, bytes, Clock::Steady().Now()});
  GrantMemory();
}

void FeedSessions::GrantMemory() {
  for (;;) {
    // In order of arrival. The exception: no other inference session is consumed before the
    // current one has ended, so it must not wait for the memory of the others.
    const auto next = std::find_if(
        memory_requests_.begin(), memory_requests_.end(), [&](const MemoryRequest& request) {
          return (&request == &memory_requests_.front() && pool_.CanTake(request.bytes)) ||
                 (request.session->phase == SessionPhase::kGrowing && IsCurrent(*request.session));
        });
    if (next == memory_requests_.end()) return;
    const MemoryRequest request = std::move(*next);
    memory_requests_.erase(next);
    counters_.feeder_wait += Clock::Steady().Now() - request.since;
    Grant(request.session, request.bytes);
  }
}

void FeedSessions::Grant(const SessionPointer& session, std::uint64_t bytes) {
  Result<std::unique_ptr<Region>> region = pool_.Take(bytes);
  Status status = region.status();
  if (status.ok()) {
    session->region = std::move(*region);
    session->ring = Ring(session->region->bytes());
    session->reads = {};
    session->region->read_position().store(0, std::memory_order_relaxed);
    const bool opening = session->phase == SessionPhase::kWaiting;
    if (opening && session->options.mode == Mode::kInference) {
      QueueOf(*session).chunks.AddSession(session->id, session->options.key.partition);
    }
    session->phase = SessionPhase::kOpen;
    status = SendRegion(*session,
                        opening ? Encode(OpenedMessage{.status = OpenStatus::kGoOn,
                                                       .result_limit = options_.result_limit_bytes,
                                                       .region_bytes = session->region->bytes()})
                                : EncodeRegion(session->region->bytes()));
  }
  if (status.ok()) return;
  const std::string why = status.Annotate("get memory for the feeder").ToString();
  PostLast(*session->link, EncodeError(why));
  BreakOff(session, why);
}

Status FeedSessions::SendRegion(FeedSession& session, std::string frame) {
  UniqueFd pass;
  if (session.link->local) {
    pass.Reset(::fcntl(session.region->fd(), F_DUPFD_CLOEXEC, 0));
    if (!pass.valid()) return Status::FromErrno(errno, "pass on shared memory");
  }
  Post(*session.link, {.bytes = std::move(frame), .pass = std::move(pass)});
  return {};
}

void FeedSessions::BreakOff(const SessionPointer& session, std::string_view why) {
  // A feeder that was still waiting has brought nothing, and many go when another node has served
  // them.
  if (session->phase != SessionPhase::kWaiting) {
    LogWarning("feed: partition {} (attempt {}) broke off: {}", session->options.key.partition,
               session->options.attempt.number, why);
    ++counters_.broken_sessions;
  }
  EndSession(session, /*orderly=*/false);
}

bool FeedSessions::TakesOver(FeederLink& link, const PartitionKey& key, const Attempt& attempt) {
  if (const std::optional<Attempt> newer = ledger_.TakenOverBy(key, attempt)) {
    PostLast(link, EncodeSuperseded(newer->number));
    return false;
  }
  const auto old = std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    const FeedSession& session = *entry.second;
    return session.phase != SessionPhase::kOver && session.options.mode == Mode::kTrain &&
           session.options.key == key && session.options.attempt != attempt;
  });
  if (old != sessions_.end()) {  // There is never more than one.
    const SessionPointer session = old->second;
    PostLast(*session->link, EncodeSuperseded(attempt.number));
    BreakOff(session, fmt::format("attempt {} of the same partition took over", attempt.number));
  }
  return true;
}

void FeedSessions::Post(FeederLink& link, OutFrame frame) {
  if (link.draining) return;
  link.posted.push_back(std::move(frame));
  MarkDirty(link);
}

void FeedSessions::PostLast(FeederLink& link, std::string frame) {
  Post(link, {.bytes = std::move(frame)});
  link.draining = true;
}

void FeedSessions::MarkDirty(FeederLink& link) {
  if (std::exchange(link.dirty, true)) return;
  dirty_.push_back(link.id);
  if (dirty_.size() == 1) Wake();
}

void FeedSessions::Wake() {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the thread will wake up anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

// ---------------------------------------------------------------------------------------------
// Messages of authenticated feeders.

Status FeedSessions::OnMessage(FeederLink& link, MessageType type,
                               std::span<const std::byte> body) {
  const Lock lock(mutex_);
  // What crossed our last word on its way.
  if (link.draining) return {};
  // Its partition is over, and that it does not know is no mistake of the feeder.
  if (closed_) return {ErrorKind::kReconnect, "the node closed"};
  switch (type) {
    case MessageType::kCount: {
      TFOS_ASSIGN_OR_RETURN(const CountMessage message, ParseCount(body));
      return OnCount(link, message);
    }
    case MessageType::kOpen: {
      TFOS_ASSIGN_OR_RETURN(SessionOptions options, ParseOpen(body));
      return OnOpen(link, std::move(options));
    }
    case MessageType::kChunk: {
      TFOS_ASSIGN_OR_RETURN(const ChunkMessage message, ParseChunk(body));
      return OnChunk(link, message);
    }
    case MessageType::kGrow: {
      TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseU64(body));
      return OnGrow(link, bytes);
    }
    case MessageType::kEnd: {
      TFOS_ASSIGN_OR_RETURN(const std::uint64_t items, ParseU64(body));
      return OnEnd(link, items);
    }
    default:
      return {ErrorKind::kBadInput,
              fmt::format("a {} message from a feeder", MessageTypeName(type))};
  }
}

Status FeedSessions::OnCount(FeederLink& link, const CountMessage& message) {
  if (link.session != nullptr) return {ErrorKind::kBadInput, "a COUNT after OPEN"};
  if (failure_) {
    PostLast(link, EncodeError(*failure_));
    return {};
  }
  // First, as what another attempt still brings after the answer would be brought twice.
  if (!TakesOver(link, message.key, message.attempt)) return {};
  const ItemRanges accepted = ledger_.Accepted(message.key);
  std::span<const ItemRange> left(accepted.ranges());
  do {
    const std::span<const ItemRange> now = left.first(std::min(left.size(), kRangesInCounted));
    left = left.subspan(now.size());
    Post(link, {.bytes = Encode(CountedMessage{.more = !left.empty(),
                                               .accepted_bytes = counters_.bytes,
                                               .ranges = {now.begin(), now.end()}})});
  } while (!left.empty());
  return {};
}

Status FeedSessions::OnOpen(FeederLink& link, SessionOptions options) {
  if (link.session != nullptr) return {ErrorKind::kBadInput, "a second OPEN"};
  if (failure_) {
    PostLast(link, EncodeError(*failure_));
    return {};
  }
  if (options.until_read && (options.mode != Mode::kTrain || options.replay.epochs > 0)) {
    return {ErrorKind::kBadInput,
            "a partition that lasts until it is read is for training and not replayed"};
  }
  const auto queue = queues_.find(options.queue);
  // The last epoch is evened out when the feed is over.
  const bool too_late = options.mode == Mode::kPass ? terminated_ : feed_over_;
  if (queue == queues_.end() || too_late) {
    const OpenStatus status =
        queue == queues_.end() ? OpenStatus::kUnknownQueue : OpenStatus::kFeedOver;
    PostLast(link, Encode(OpenedMessage{.status = status}));
    return {};
  }
  if (options.mode == Mode::kTrain) {
    if (options.key.epoch > queue->second.epoch + kMostEpochsAhead ||
        options.replay.epochs > kMostEpochsAhead) {
      return {ErrorKind::kBadInput,
              fmt::format("a partition of epoch {} with {} replays in epoch {}", options.key.epoch,
                          options.replay.epochs, queue->second.epoch)};
    }
    EndEpochsBefore(queue->second, options.key.epoch);
    if (!TakesOver(link, options.key, options.attempt)) return {};
  }
  const std::uint64_t bytes = options.region_bytes == 0
                                  ? options_.region_bytes
                                  : std::min(options.region_bytes, options_.region_bytes);
  auto session = std::make_shared<FeedSession>();
  session->id = next_session_++;
  session->link = &link;
  session->options = std::move(options);
  session->cache = CacheFor(queue->second, session->options);
  sessions_.emplace(session->id, session);
  link.session = session;
  ++queue->second.open_sessions;
  ++counters_.open_sessions;
  if (session->options.mode == Mode::kPass) {
    // Beyond the budget: it may be full of the next epoch's rows, which wait for these.
    Grant(session, std::max<std::uint64_t>(1, session->options.region_bytes));
  } else {
    RequestMemory(session, bytes);
  }
  return {};
}

std::shared_ptr<CachedEpoch> FeedSessions::CacheFor(Queue& queue, const SessionOptions& options) {
  const ReplayOptions& replay = options.replay;
  // A late attempt at a partition of an epoch that is over brings nothing.
  if (options.mode != Mode::kTrain || replay.place == CachePlace::kNone || replay.epochs == 0 ||
      options.key.epoch < queue.epoch) {
    return nullptr;
  }
  Cached& cached = queue.cached[options.key.epoch];
  if (cached.epoch == nullptr) {
    cached = {.epoch = std::make_shared<CachedEpoch>(replay.place, cache_account_,
                                                     options_.cache_directory),
              .options = replay};
  }
  return cached.epoch;
}

Result<std::uint64_t> FeedSessions::PlaceChunk(FeederLink& link, const ChunkMessage& message) {
  const SessionPointer& session = link.session;
  if (session == nullptr || session->phase != SessionPhase::kOpen) {
    return Status(ErrorKind::kBadInput, "a chunk for a partition that is not open");
  }
  if (message.items > kItemsLimit - session->items || message.first > kItemsLimit) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a chunk of {} items from {} on", message.items, message.first));
  }
  const std::optional<std::uint64_t> number = session->ring.Place(message.offset, message.bytes);
  if (!number) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a chunk of {} bytes at {}, which is not free in a region of {}",
                              message.bytes, message.offset, session->ring.capacity()));
  }
  return *number;
}

Status FeedSessions::OnChunk(FeederLink& link, const ChunkMessage& message) {
  if (!link.local) return {ErrorKind::kBadInput, "a CHUNK message without shared memory"};
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t number, PlaceChunk(link, message));
  FeedSession& session = *link.session;
  Accepted(session, {.session = session.id,
                     .number = number,
                     .bytes = session.region->memory().subspan(message.offset, message.bytes),
                     .first = message.first,
                     .items = message.items,
                     .rows_read = message.rows_read});
  return {};
}

Result<std::span<std::byte>> FeedSessions::OnDataBegin(FeederLink& link,
                                                       std::span<const std::byte> body,
                                                       std::uint32_t bytes) {
  if (link.local) return Status(ErrorKind::kBadInput, "a DATA message beside shared memory");
  TFOS_ASSIGN_OR_RETURN(const DataHead head, ParseDataHead(body));
  const Lock lock(mutex_);
  if (closed_ && !link.draining) return Status(ErrorKind::kReconnect, "the node closed");
  TFOS_ASSIGN_OR_RETURN(
      const std::uint64_t number,
      PlaceChunk(
          link, {.offset = head.offset, .bytes = bytes, .first = head.first, .items = head.items}));
  const FeedSession& session = *link.session;
  const std::span<std::byte> target = session.region->memory().subspan(head.offset, bytes);
  link.chunk = {.session = session.id,
                .number = number,
                .bytes = target,
                .first = head.first,
                .items = head.items,
                .rows_read = head.rows_read};
  link.receiving_chunk = true;
  return target;
}

void FeedSessions::OnDataEnd(FeederLink& link) {
  const Lock lock(mutex_);
  if (link.session->phase == SessionPhase::kOver) {
    AbandonPayload(link);
    return;
  }
  link.receiving_chunk = false;
  Accepted(*link.session, link.chunk);
}

void FeedSessions::AbandonPayload(FeederLink& link) {
  if (!std::exchange(link.receiving_chunk, false)) return;
  ReleaseBlock(*link.session, link.chunk.number);
}

void FeedSessions::Accepted(FeedSession& session, const QueuedChunk& chunk) {
  session.items += chunk.items;
  counters_.items += chunk.items;
  ++counters_.chunks;
  // A sample makes nobody a node that has rows.
  const Mode mode = session.options.mode;
  if (!IsSample(chunk) && mode != Mode::kPass) counters_.bytes += chunk.bytes.size();
  ++counters_.queued_chunks;
  counters_.queued_bytes += chunk.bytes.size();
  FeedQueue& queue = QueueOf(session).chunks;
  if (mode == Mode::kPass) {
    QueueOf(session).passed[session.options.key.epoch].push_back(chunk);
  } else if (mode == Mode::kTrain) {
    counters_.train_items += chunk.items;
    if (session.options.until_read) session.reads.Accept();
    if (!IsSample(chunk)) counters_.rows_read_elsewhere += chunk.rows_read;
    ledger_.Add(session.options.key, {chunk.first, chunk.first + chunk.items});
    queue.PushTrain(chunk);
  } else {
    queue.PushInference(chunk);
  }
  changed_.notify_all();
}

Status FeedSessions::OnGrow(FeederLink& link, std::uint64_t bytes) {
  const SessionPointer& session = link.session;
  if (session == nullptr || session->phase != SessionPhase::kOpen ||
      session->ring.in_flight() > 0) {
    return {ErrorKind::kBadInput, "GROW while chunks are in use or no partition is open"};
  }
  if (bytes == 0 || (!link.local && bytes > kDataLimit)) {
    return {ErrorKind::kBadInput,
            fmt::format("a chunk of {} bytes; over TCP at most {} fit", bytes, kDataLimit)};
  }
  pool_.GiveBack(std::move(session->region), /*reusable=*/true);
  session->ring = Ring(0);
  session->phase = SessionPhase::kGrowing;
  RequestMemory(session, bytes);
  return {};
}

Status FeedSessions::OnEnd(FeederLink& link, std::uint64_t items) {
  const SessionPointer& session = link.session;
  if (session == nullptr || session->phase != SessionPhase::kOpen) {
    return {ErrorKind::kBadInput, "END of a partition that is not open"};
  }
  if (items != session->items) {
    return {ErrorKind::kBadInput,
            fmt::format("the feeder counts {} items, the node {}", items, session->items)};
  }
  if (session->options.mode == Mode::kInference) {
    session->phase = SessionPhase::kEnding;
    QueueOf(*session).chunks.EndSession(session->id);
    changed_.notify_all();
  } else if (session->options.until_read && !session->reads.all_read()) {
    session->phase = SessionPhase::kEnding;
  } else {
    EndTraining(session);
  }
  return {};
}

// ---------------------------------------------------------------------------------------------
// For the listener.

bool FeedSessions::Draining(FeederLink& link) {
  const Lock lock(mutex_);
  if (link.draining) AbandonPayload(link);
  return link.draining;
}

void FeedSessions::Refuse(FeederLink& link, const Status& reason) {
  const Lock lock(mutex_);
  ++counters_.refused_connections;
  AbandonPayload(link);
  PostLast(link, EncodeError(reason.message()));
  const SessionPointer session = link.session;
  if (session != nullptr && session->phase != SessionPhase::kOver) {
    BreakOff(session, reason.message());
  }
}

void FeedSessions::CountRefusal() {
  const Lock lock(mutex_);
  ++counters_.refused_connections;
}

void FeedSessions::Say(FeederLink& link, std::string frame) {
  const Lock lock(mutex_);
  Post(link, {.bytes = std::move(frame)});
}

void FeedSessions::Gone(FeederLink& link, std::string_view why) {
  const Lock lock(mutex_);
  AbandonPayload(link);
  const SessionPointer session = link.session;
  if (session == nullptr) return;
  if (session->phase != SessionPhase::kOver) BreakOff(session, why);
  session->link = nullptr;
}

std::vector<std::uint64_t> FeedSessions::TakeDirty() {
  const Lock lock(mutex_);
  std::uint64_t ignored = 0;
  [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &ignored, sizeof(ignored));
  return std::exchange(dirty_, {});
}

std::vector<OutFrame> FeedSessions::TakePosted(FeederLink& link) {
  const Lock lock(mutex_);
  link.dirty = false;
  std::vector<OutFrame> frames;
  if (const std::uint32_t credits = std::exchange(link.credits, 0); credits > 0) {
    frames.push_back(
        {.bytes = Encode(CreditMessage{.chunks = credits, .accepted_bytes = counters_.bytes})});
  }
  std::ranges::move(std::exchange(link.posted, {}), std::back_inserter(frames));
  return frames;
}

bool FeedSessions::Sent(FeederLink& link, std::uint64_t result_bytes, bool everything) {
  const Lock lock(mutex_);
  if (result_bytes > 0) {
    link.session->unread_result_bytes -= result_bytes;
    changed_.notify_all();
  }
  return everything && link.draining && link.posted.empty();
}

/// Over TCP, closing with unread data would take the last word back, so its feeder goes first.
bool FeedSessions::Settled(const FeederLink& link) const {
  const Lock lock(mutex_);
  return link.posted.empty() && (link.local || !link.draining);
}

}  // namespace tfos::feed
