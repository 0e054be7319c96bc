#include "feed/feed_server.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/unique_fd.h"
#include "feed/cached_epoch.h"
#include "feed/feed_queue.h"
#include "feed/frame.h"
#include "feed/ledger.h"
#include "feed/outbox.h"
#include "feed/read_position.h"
#include "feed/region.h"
#include "feed/ring.h"
#include "net/socket.h"

namespace tfos::feed {
namespace {

using TimePoint = Clock::TimePoint;

/// Connections that have not proved the token yet; one more costs the oldest its place.
constexpr std::size_t kStrangersLimit = 256;
/// How long Close waits for feeders to take what was already said to them.
constexpr std::chrono::milliseconds kCloseGrace{500};
/// After running out of descriptors: the pause before the next accept.
constexpr std::chrono::milliseconds kAcceptPause{100};
/// How often feeders hear at most that the program consumes. Their timeouts are longer.
constexpr std::chrono::seconds kProgressInterval{1};
/// Receives for one connection before the others get their turn.
constexpr int kReceivesPerTurn = 16;
/// Epochs without a row for this node, and of whose end it has not heard, before one with some.
constexpr std::uint64_t kMostEpochsAhead = 1 << 16;
/// No partition has more; keeps sums of what feeders claim from overflowing.
constexpr std::uint64_t kItemsLimit = std::uint64_t{1} << 56;

/// Ids of the descriptors that are no connection; connections count on from there.
enum : std::uint64_t { kWakeId, kUnixListenerId, kTcpListenerId, kFirstConnectionId };

enum class SessionPhase {
  kWaiting,  ///< OPEN came; memory is not granted yet.
  kOpen,     ///< Chunks may come.
  kGrowing,  ///< GROW came; memory is not granted yet.
  kEnding,   ///< END came; rows are being answered, or read.
  kOver,     ///< Nothing more is said about it. Chunks may still be lent out.
};

struct Connection;

std::string DescribePeer(int fd, bool local) {
  if (local) {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return "this host";
    return fmt::format("process {} of this host", peer.pid);
  }
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), nullptr,
                    0, NI_NUMERICHOST) != 0) {
    return "another host";
  }
  return host.data();
}

/// One partition being fed. Guarded by the server's lock.
struct Session {
  std::uint64_t id = 0;
  SessionOptions options;
  SessionPhase phase = SessionPhase::kWaiting;
  Connection* connection = nullptr;    ///< Null once that is gone.
  std::shared_ptr<CachedEpoch> cache;  ///< Null unless its epoch will be replayed.
  std::unique_ptr<Region> region;      ///< Null while waiting, and when over and all released.
  Ring ring{0};
  ReadTracker reads;     ///< Only if it lasts until all is read.
  bool orderly = false;  ///< Over: as it should, so that the region can be used again.
  std::uint64_t items = 0;
  std::uint64_t rows_answered = 0;
  std::uint64_t unread_result_bytes = 0;
};

/// One feeder's socket. Used by the server's thread only, but for the fields at the end.
struct Connection {
  std::uint64_t id = 0;
  UniqueFd fd;
  bool local = false;  ///< On the Unix socket: shares memory.
  std::string peer;
  FrameReader reader;
  Outbox outbox;
  std::uint32_t watched = 0;  ///< Events asked of epoll.
  bool said_goodbye = false;  ///< Our side is shut down.
  bool authenticated = false;
  bool counted = false;  ///< It has sent a COUNT.
  Nonce nonce{};
  TimePoint authenticate_by;

  /// The payload being received: a chunk in the session's region, or the text of an error.
  bool receiving_chunk = false;
  QueuedChunk chunk;
  std::string error_text;

  // Guarded by the server's lock.
  std::shared_ptr<Session> session;
  std::vector<OutFrame> posted;  ///< To be moved to the outbox.
  std::uint32_t credits = 0;     ///< To be sent as one CREDIT.
  bool dirty = false;            ///< Listed in the server's `dirty_`.
  bool draining = false;         ///< The last word was posted; what still comes is discarded.
};

}  // namespace

class FeedServer::Impl : public std::enable_shared_from_this<FeedServer::Impl> {
 public:
  explicit Impl(FeedServerOptions options)
      : options_(std::move(options)),
        pool_(options_.memory_budget_bytes),
        cache_account_(std::make_shared<CacheAccount>(options_.cache_memory_bytes)) {
    for (const std::string& queue : options_.queues) queues_.try_emplace(queue);
  }

  Status Start();
  Endpoint endpoint() const { return endpoint_; }
  Result<feed::Next> Next(std::string_view queue, const Wait& wait);
  Result<Delivery> SendResult(std::uint64_t session, std::uint64_t rows, AlignedBuffer chunk,
                              const Wait& wait);
  Result<Delivery> FinishSession(std::uint64_t session, std::uint64_t rows);
  void EndEpoch(std::string_view queue, std::uint32_t epoch);
  void EndFeed();
  void Terminate();
  bool terminated() const;
  void Fail(std::string_view text);
  void Close();
  FeedCounters counters() const;
  Result<PrivateView> MapPrivately(const QueuedChunk& chunk) const;
  void MarkRead(std::uint64_t session, std::uint64_t number, std::uint64_t rows);
  void Release(std::uint64_t session, std::uint64_t number);

 private:
  using Lock = std::unique_lock<std::mutex>;
  using SessionPointer = std::shared_ptr<Session>;

  /// An epoch that will be replayed.
  struct Cached {
    std::shared_ptr<CachedEpoch> epoch;
    ReplayOptions options;
  };
  struct Queue {
    FeedQueue chunks;
    std::size_t open_sessions = 0;
    std::uint64_t epoch = 0;                 ///< The first that has not ended.
    std::map<std::uint64_t, Cached> cached;  ///< By epoch, until its end is queued.
    std::size_t being_cached = 0;            ///< Chunks that consumers took and now copy.
  };
  struct MemoryRequest {
    SessionPointer session;
    std::uint64_t bytes = 0;
    TimePoint since;
  };

  // The server's thread, without the lock.
  void Run();
  int PollTimeout(std::optional<TimePoint> close_by) const;
  void Accept(const UniqueFd& listener, bool local);
  void ListenFor(std::uint32_t events);
  void DropStrangers();
  void OnReadable(Connection& connection);
  Result<bool> ReceiveOnce(Connection& connection);
  Status OnEvent(Connection& connection, FrameReader::Event event);
  Status OnHello(Connection& connection);
  void Flush(Connection& connection);
  void FlushDirty();
  void Watch(Connection& connection, std::uint32_t events);
  void Refuse(Connection& connection, const Status& reason);
  void Drop(std::uint64_t connection_id, const Status& reason);
  bool Settled(const Connection& connection) const;

  // Everything below needs the lock.
  Status OnMessage(Connection& connection);
  Status OnCount(Connection& connection, const CountMessage& message);
  Status OnOpen(Connection& connection, SessionOptions options);
  /// Null when the epoch is not replayed.
  std::shared_ptr<CachedEpoch> CacheFor(Queue& queue, const SessionOptions& options);
  void EndEpochsBefore(Queue& queue, std::uint64_t epoch);
  Status OnChunk(Connection& connection, const ChunkMessage& message);
  Status OnDataBegin(Connection& connection);
  void OnDataEnd(Connection& connection);
  void AbandonPayload(Connection& connection);
  Status OnGrow(Connection& connection, std::uint64_t bytes);
  Status OnEnd(Connection& connection, std::uint64_t items);
  /// The block of the ring that the chunk takes, if the session may send it.
  Result<std::uint64_t> PlaceChunk(Connection& connection, const ChunkMessage& message);
  void Accepted(Session& session, const QueuedChunk& chunk);
  void RequestMemory(const SessionPointer& session, std::uint64_t bytes);
  void GrantMemory();
  void Grant(const SessionPointer& session, std::uint64_t bytes);
  Status SendRegion(Session& session, std::string frame);
  void Supersede(const PartitionKey& key, std::uint32_t attempt);
  void BreakOff(const SessionPointer& session, std::string_view why);
  void EndSession(SessionPointer session, bool orderly);
  /// All that a training partition brought was accepted, and read if it lasts until then.
  void EndTraining(const SessionPointer& session);
  /// Gives up what its feeder brought and no consumer has taken.
  void Withdraw(Session& session);
  void RecordRead(const SessionPointer& session, std::uint64_t number, std::uint64_t rows);
  void ReleaseAll(const std::vector<QueuedChunk>& chunks);
  void ReleaseBlock(Session& session, std::uint64_t number);
  void Retire(Session& session);
  void Post(Connection& connection, OutFrame frame);
  void PostLast(Connection& connection, std::string frame);
  void MarkDirty(Connection& connection);
  void StopAll(const std::string& last_frame);
  void Wake();
  void CountOut(const QueuedChunk& chunk);
  ChunkLoan Lend(const QueuedChunk& chunk);
  Result<ChunkLoan> LendCached(Lock& lock, const FeedQueue::CachedChunk& chunk);
  Status CacheFailed(const Status& cause);
  Result<ChunkLoan> LendAndCache(Lock& lock, Queue& queue, const QueuedChunk& chunk);
  void TellProgress();
  SessionPointer FindOpen(std::uint64_t id) const;
  Queue& QueueOf(const Session& session) { return queues_.find(session.options.queue)->second; }
  bool IsCurrent(const Session& session) { return QueueOf(session).chunks.current() == session.id; }
  Status WaitOn(Lock& lock, const Wait& wait, std::string_view what);

  const FeedServerOptions options_;
  Endpoint endpoint_;
  UniqueFd epoll_;
  UniqueFd wake_;
  UniqueFd unix_listener_;
  UniqueFd tcp_listener_;
  std::thread thread_;

  // The server's thread only.
  std::map<std::uint64_t, std::unique_ptr<Connection>> connections_;
  std::uint64_t next_connection_ = kFirstConnectionId;
  std::set<std::uint64_t> strangers_;  ///< Not authenticated yet; the oldest comes first.
  std::optional<TimePoint> accept_again_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(64 * 1024);

  mutable std::mutex mutex_;
  std::condition_variable changed_;  ///< Anything a consumer waits for.
  RegionPool pool_;
  const std::shared_ptr<CacheAccount> cache_account_;
  std::map<std::string, Queue, std::less<>> queues_;
  std::map<std::uint64_t, SessionPointer> sessions_;  ///< Until over and all chunks released.
  std::uint64_t next_session_ = 1;
  std::deque<MemoryRequest> memory_requests_;
  Ledger ledger_;
  std::vector<std::uint64_t> dirty_;  ///< Connections with something posted.
  bool feed_over_ = false;
  bool terminated_ = false;
  bool closed_ = false;
  std::optional<std::string> failure_;
  std::optional<TimePoint> progress_told_;
  FeedCounters counters_;
};

/// What a loan refers to; gives the chunk back when it goes.
struct ChunkLoan::Rep {
  Rep(std::shared_ptr<FeedServer::Impl> lender, const Session& session, const QueuedChunk& lent)
      : server(std::move(lender)),
        chunk(lent),
        partition(session.options.key.partition),
        mode(session.options.mode),
        until_read(session.options.until_read) {}
  explicit Rep(CachedEpoch::Chunk lent)
      : cached(std::move(lent.memory)), chunk{.bytes = cached->bytes(), .items = lent.items} {}
  Rep(const Rep&) = delete;
  Rep& operator=(const Rep&) = delete;
  ~Rep() {
    if (server != nullptr) server->Release(chunk.session, chunk.number);
  }

  const std::shared_ptr<FeedServer::Impl> server;     ///< Null when cached.
  const std::shared_ptr<const AlignedBuffer> cached;  ///< Null when a feeder's.
  const QueuedChunk chunk;
  const std::uint32_t partition = 0;
  const Mode mode = Mode::kTrain;
  const bool until_read = false;
};

ChunkLoan& ChunkLoan::operator=(ChunkLoan&& other) noexcept {
  rep_ = std::move(other.rep_);
  return *this;
}

std::span<const std::byte> ChunkLoan::bytes() const {
  return rep_ == nullptr ? std::span<const std::byte>() : rep_->chunk.bytes;
}
bool ChunkLoan::is_private() const { return rep_ != nullptr && rep_->cached != nullptr; }
Result<PrivateView> ChunkLoan::MapPrivately() const {
  return rep_->server->MapPrivately(rep_->chunk);
}
std::uint64_t ChunkLoan::items() const { return rep_ == nullptr ? 0 : rep_->chunk.items; }
std::uint64_t ChunkLoan::session() const { return rep_ == nullptr ? 0 : rep_->chunk.session; }
std::uint32_t ChunkLoan::partition() const { return rep_ == nullptr ? 0 : rep_->partition; }
Mode ChunkLoan::mode() const { return rep_ == nullptr ? Mode::kTrain : rep_->mode; }
std::uint64_t ChunkLoan::rows_read() const { return rep_ == nullptr ? 0 : rep_->chunk.rows_read; }
bool ChunkLoan::until_read() const { return rep_ != nullptr && rep_->until_read; }
void ChunkLoan::MarkRead(std::uint64_t rows) const {
  if (until_read()) rep_->server->MarkRead(rep_->chunk.session, rep_->chunk.number, rows);
}
void ChunkLoan::Release() { rep_.reset(); }

// ---------------------------------------------------------------------------------------------
// For consumers.

Status FeedServer::Impl::WaitOn(Lock& lock, const Wait& wait, std::string_view what) {
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

Result<feed::Next> FeedServer::Impl::Next(std::string_view queue_name, const Wait& wait) {
  Lock lock(mutex_);
  const auto found = queues_.find(queue_name);
  if (found == queues_.end()) {
    return Status(ErrorKind::kBadInput, fmt::format("the node has no queue '{}'; it has {}",
                                                    queue_name, fmt::join(options_.queues, ", ")));
  }
  Queue& queue = found->second;
  std::optional<TimePoint> waiting_since;
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

ChunkLoan FeedServer::Impl::Lend(const QueuedChunk& chunk) {
  CountOut(chunk);
  const Session& session = *sessions_.find(chunk.session)->second;
  if (session.options.mode == Mode::kTrain) counters_.taken_items += chunk.items;
  TellProgress();
  return ChunkLoan(std::make_shared<ChunkLoan::Rep>(shared_from_this(), session, chunk));
}

Result<ChunkLoan> FeedServer::Impl::LendCached(Lock& lock, const FeedQueue::CachedChunk& chunk) {
  lock.unlock();  // It may be in a file.
  Result<CachedEpoch::Chunk> read = chunk.epoch->Read(chunk.index);
  lock.lock();
  if (!read.ok()) return CacheFailed(read.status());
  counters_.replayed_items += read->items;
  TellProgress();
  return ChunkLoan(std::make_shared<ChunkLoan::Rep>(std::move(*read)));
}

/// To consumers and feeders alike, now and later: rows of the epoch are lost to the node. Not a
/// reason to try again, whatever the file system says.
Status FeedServer::Impl::CacheFailed(const Status& cause) {
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
Result<ChunkLoan> FeedServer::Impl::LendAndCache(Lock& lock, Queue& queue,
                                                 const QueuedChunk& chunk) {
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
void FeedServer::Impl::TellProgress() {
  const TimePoint now = options_.progress_clock->Now();
  if (progress_told_ && now - *progress_told_ < kProgressInterval) return;
  progress_told_ = now;
  for (const auto& [id, session] : sessions_) {
    if (session->phase != SessionPhase::kOver) {
      Post(*session->connection, {.bytes = EncodeProgress()});
    }
  }
}

void FeedServer::Impl::CountOut(const QueuedChunk& chunk) {
  --counters_.queued_chunks;
  counters_.queued_bytes -= chunk.bytes.size();
}

FeedServer::Impl::SessionPointer FeedServer::Impl::FindOpen(std::uint64_t id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() || it->second->phase == SessionPhase::kOver ? nullptr : it->second;
}

Result<Delivery> FeedServer::Impl::SendResult(std::uint64_t session_id, std::uint64_t rows,
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
      Post(*session->connection, std::move(frame));
      TellProgress();
      return Delivery::kSent;
    }
    TFOS_RETURN_IF_ERROR(WaitOn(
        lock, wait,
        fmt::format("the feeder of partition {} took no results", session->options.key.partition)));
  }
}

Result<Delivery> FeedServer::Impl::FinishSession(std::uint64_t session_id, std::uint64_t rows) {
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
    PostLast(*session->connection, EncodeError(mismatch.message()));
    EndSession(session, /*orderly=*/false);
    return mismatch;
  }
  Post(*session->connection,
       {.bytes = Encode(EndedMessage{.items = session->items, .rows = rows})});
  EndSession(session, /*orderly=*/true);
  return Delivery::kSent;
}

void FeedServer::Impl::EndEpoch(std::string_view queue, std::uint32_t epoch) {
  const Lock lock(mutex_);
  const auto found = queues_.find(queue);
  if (found != queues_.end()) EndEpochsBefore(found->second, std::uint64_t{epoch} + 1);
}

void FeedServer::Impl::EndEpochsBefore(Queue& queue, std::uint64_t epoch) {
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

void FeedServer::Impl::EndFeed() {
  const Lock lock(mutex_);
  feed_over_ = true;
  for (const MemoryRequest& request : std::exchange(memory_requests_, {})) {
    if (request.session->phase != SessionPhase::kWaiting) {
      memory_requests_.push_back(request);
      continue;
    }
    PostLast(*request.session->connection, Encode(OpenedMessage{.status = OpenStatus::kFeedOver}));
    EndSession(request.session, /*orderly=*/true);
  }
  changed_.notify_all();
}

void FeedServer::Impl::Terminate() {
  const Lock lock(mutex_);
  if (std::exchange(terminated_, true)) return;
  feed_over_ = true;
  StopAll(EncodeStop());
}

bool FeedServer::Impl::terminated() const {
  const Lock lock(mutex_);
  return terminated_;
}

void FeedServer::Impl::Fail(std::string_view text) {
  const Lock lock(mutex_);
  if (failure_) return;
  failure_ = text;
  StopAll(EncodeError(text));
}

FeedCounters FeedServer::Impl::counters() const {
  const Lock lock(mutex_);
  FeedCounters snapshot = counters_;
  snapshot.region_bytes_in_use = pool_.bytes_in_use();
  snapshot.cache_memory_bytes = cache_account_->memory_bytes();
  snapshot.cache_file_bytes = cache_account_->file_bytes();
  return snapshot;
}

Result<PrivateView> FeedServer::Impl::MapPrivately(const QueuedChunk& chunk) const {
  const Lock lock(mutex_);
  return sessions_.find(chunk.session)->second->region->MapPrivately(chunk.bytes);
}

void FeedServer::Impl::MarkRead(std::uint64_t session, std::uint64_t number, std::uint64_t rows) {
  const Lock lock(mutex_);
  RecordRead(sessions_.find(session)->second, number, rows);
}

void FeedServer::Impl::Release(std::uint64_t session_id, std::uint64_t number) {
  const Lock lock(mutex_);
  const SessionPointer session = sessions_.find(session_id)->second;
  RecordRead(session, number, ReadTracker::kAllRows);
  ReleaseBlock(*session, number);
}

// ---------------------------------------------------------------------------------------------
// Sessions and their memory. All of it needs the lock.

void FeedServer::Impl::StopAll(const std::string& last_frame) {
  std::vector<SessionPointer> open;
  for (const auto& [id, session] : sessions_) {
    if (session->phase != SessionPhase::kOver) open.push_back(session);
  }
  for (const SessionPointer& session : open) {
    PostLast(*session->connection, last_frame);
    EndSession(session, /*orderly=*/false);
  }
  for (auto& [name, queue] : queues_) {
    ReleaseAll(queue.chunks.Clear());
    queue.cached.clear();
  }
  changed_.notify_all();
}

void FeedServer::Impl::EndSession(SessionPointer session, bool orderly) {
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

void FeedServer::Impl::Withdraw(Session& session) {
  const std::vector<QueuedChunk> chunks = QueueOf(session).chunks.WithdrawTrain(session.id);
  for (const QueuedChunk& chunk : chunks) {
    ledger_.Remove(session.options.key, {chunk.first, chunk.first + chunk.items});
    counters_.withdrawn_items += chunk.items;
  }
  ReleaseAll(chunks);
}

void FeedServer::Impl::RecordRead(const SessionPointer& session, std::uint64_t number,
                                  std::uint64_t rows) {
  if (!session->options.until_read || session->phase == SessionPhase::kOver) return;
  session->reads.Read(number, rows);
  session->region->read_position().store(session->reads.position().Packed(),
                                         std::memory_order_release);
  if (session->phase == SessionPhase::kEnding && session->reads.all_read()) EndTraining(session);
}

void FeedServer::Impl::EndTraining(const SessionPointer& session) {
  Post(*session->connection, {.bytes = Encode(EndedMessage{.items = session->items})});
  EndSession(session, /*orderly=*/true);
  if (session->region == nullptr) return;
  // Chunks that are still in use keep it. Many small partitions must not fill the budget with
  // memory that they never used.
  pool_.Trim(*session->region, session->ring.used());
  GrantMemory();
}

void FeedServer::Impl::ReleaseAll(const std::vector<QueuedChunk>& chunks) {
  for (const QueuedChunk& chunk : chunks) {
    CountOut(chunk);
    ReleaseBlock(*sessions_.find(chunk.session)->second, chunk.number);
  }
}

void FeedServer::Impl::ReleaseBlock(Session& session, std::uint64_t number) {
  const std::size_t freed = session.ring.Release(number);
  if (freed == 0) return;
  if (session.phase == SessionPhase::kOver) {
    Retire(session);
  } else {
    session.connection->credits += static_cast<std::uint32_t>(freed);
    MarkDirty(*session.connection);
  }
}

void FeedServer::Impl::Retire(Session& session) {
  if (session.phase != SessionPhase::kOver || session.ring.in_flight() > 0) return;
  if (session.region != nullptr) {
    // What a feeder reads there when it finds this node dead must not be of another session.
    pool_.GiveBack(std::move(session.region), session.orderly && !session.options.until_read);
  }
  sessions_.erase(session.id);  // May destroy `session`.
  GrantMemory();
}

void FeedServer::Impl::RequestMemory(const SessionPointer& session, std::uint64_t bytes) {
  memory_requests_.push_back({session, bytes, Clock::Steady().Now()});
  GrantMemory();
}

void FeedServer::Impl::GrantMemory() {
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

void FeedServer::Impl::Grant(const SessionPointer& session, std::uint64_t bytes) {
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
  PostLast(*session->connection, EncodeError(why));
  BreakOff(session, why);
}

Status FeedServer::Impl::SendRegion(Session& session, std::string frame) {
  UniqueFd pass;
  if (session.connection->local) {
    pass.Reset(::fcntl(session.region->fd(), F_DUPFD_CLOEXEC, 0));
    if (!pass.valid()) return Status::FromErrno(errno, "pass on shared memory");
  }
  Post(*session.connection, {.bytes = std::move(frame), .pass = std::move(pass)});
  return {};
}

void FeedServer::Impl::BreakOff(const SessionPointer& session, std::string_view why) {
  // A feeder that was still waiting has brought nothing, and many go when another node has served
  // them.
  if (session->phase != SessionPhase::kWaiting) {
    LogWarning("feed: partition {} (attempt {}) broke off: {}", session->options.key.partition,
               session->options.attempt, why);
    ++counters_.broken_sessions;
  }
  EndSession(session, /*orderly=*/false);
}

void FeedServer::Impl::Supersede(const PartitionKey& key, std::uint32_t attempt) {
  const auto old = std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    const Session& session = *entry.second;
    return session.phase != SessionPhase::kOver && session.options.mode == Mode::kTrain &&
           session.options.key == key;
  });
  if (old == sessions_.end()) return;  // There is never more than one.
  const SessionPointer session = old->second;
  const std::string why = fmt::format("attempt {} of the same partition took over", attempt);
  PostLast(*session->connection, EncodeError(why));
  BreakOff(session, why);
}

void FeedServer::Impl::Post(Connection& connection, OutFrame frame) {
  if (connection.draining) return;
  connection.posted.push_back(std::move(frame));
  MarkDirty(connection);
}

void FeedServer::Impl::PostLast(Connection& connection, std::string frame) {
  Post(connection, {.bytes = std::move(frame)});
  connection.draining = true;
}

void FeedServer::Impl::MarkDirty(Connection& connection) {
  if (std::exchange(connection.dirty, true)) return;
  dirty_.push_back(connection.id);
  if (dirty_.size() == 1) Wake();
}

void FeedServer::Impl::Wake() {
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the thread will wake up anyway.
  [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof(one));
}

// ---------------------------------------------------------------------------------------------
// Messages of authenticated feeders. All of it needs the lock.

Status FeedServer::Impl::OnMessage(Connection& connection) {
  const std::span<const std::byte> body = connection.reader.body();
  switch (connection.reader.type()) {
    case MessageType::kCount: {
      TFOS_ASSIGN_OR_RETURN(const CountMessage message, ParseCount(body));
      return OnCount(connection, message);
    }
    case MessageType::kOpen: {
      TFOS_ASSIGN_OR_RETURN(SessionOptions options, ParseOpen(body));
      return OnOpen(connection, std::move(options));
    }
    case MessageType::kChunk: {
      TFOS_ASSIGN_OR_RETURN(const ChunkMessage message, ParseChunk(body));
      return OnChunk(connection, message);
    }
    case MessageType::kGrow: {
      TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseU64(body));
      return OnGrow(connection, bytes);
    }
    case MessageType::kEnd: {
      TFOS_ASSIGN_OR_RETURN(const std::uint64_t items, ParseU64(body));
      return OnEnd(connection, items);
    }
    default:
      return {ErrorKind::kBadInput,
              fmt::format("a {} message from a feeder", MessageTypeName(connection.reader.type()))};
  }
}

Status FeedServer::Impl::OnCount(Connection& connection, const CountMessage& message) {
  if (connection.session != nullptr) return {ErrorKind::kBadInput, "a COUNT after OPEN"};
  if (failure_) {
    PostLast(connection, EncodeError(*failure_));
    return {};
  }
  // First, as what another attempt still brings after the answer would be brought twice. But only
  // once: an attempt that has begun must not end the one that took over from it.
  if (!std::exchange(connection.counted, true)) Supersede(message.key, message.attempt);
  const ItemRanges accepted = ledger_.Accepted(message.key);
  std::span<const ItemRange> left(accepted.ranges());
  do {
    const std::span<const ItemRange> now = left.first(std::min(left.size(), kRangesInCounted));
    left = left.subspan(now.size());
    Post(connection, {.bytes = Encode(CountedMessage{.more = !left.empty(),
                                                     .accepted_bytes = counters_.bytes,
                                                     .ranges = {now.begin(), now.end()}})});
  } while (!left.empty());
  return {};
}

Status FeedServer::Impl::OnOpen(Connection& connection, SessionOptions options) {
  if (connection.session != nullptr) return {ErrorKind::kBadInput, "a second OPEN"};
  if (failure_) {
    PostLast(connection, EncodeError(*failure_));
    return {};
  }
  if (options.until_read && (options.mode != Mode::kTrain || options.replay.epochs > 0)) {
    return {ErrorKind::kBadInput,
            "a partition that lasts until it is read is for training and not replayed"};
  }
  const auto queue = queues_.find(options.queue);
  if (queue == queues_.end() || feed_over_) {
    const OpenStatus status =
        queue == queues_.end() ? OpenStatus::kUnknownQueue : OpenStatus::kFeedOver;
    PostLast(connection, Encode(OpenedMessage{.status = status}));
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
    Supersede(options.key, options.attempt);
  }
  const std::uint64_t bytes = options.region_bytes == 0
                                  ? options_.region_bytes
                                  : std::min(options.region_bytes, options_.region_bytes);
  auto session = std::make_shared<Session>();
  session->id = next_session_++;
  session->connection = &connection;
  session->options = std::move(options);
  session->cache = CacheFor(queue->second, session->options);
  sessions_.emplace(session->id, session);
  connection.session = session;
  ++queue->second.open_sessions;
  ++counters_.open_sessions;
  RequestMemory(session, bytes);
  return {};
}

std::shared_ptr<CachedEpoch> FeedServer::Impl::CacheFor(Queue& queue,
                                                        const SessionOptions& options) {
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

Result<std::uint64_t> FeedServer::Impl::PlaceChunk(Connection& connection,
                                                   const ChunkMessage& message) {
  const SessionPointer& session = connection.session;
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

Status FeedServer::Impl::OnChunk(Connection& connection, const ChunkMessage& message) {
  if (!connection.local) return {ErrorKind::kBadInput, "a CHUNK message without shared memory"};
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t number, PlaceChunk(connection, message));
  Session& session = *connection.session;
  Accepted(session, {.session = session.id,
                     .number = number,
                     .bytes = session.region->memory().subspan(message.offset, message.bytes),
                     .first = message.first,
                     .items = message.items,
                     .rows_read = message.rows_read});
  return {};
}

Status FeedServer::Impl::OnDataBegin(Connection& connection) {
  if (connection.local) return {ErrorKind::kBadInput, "a DATA message beside shared memory"};
  TFOS_ASSIGN_OR_RETURN(const DataHead head, ParseDataHead(connection.reader.body()));
  const std::uint32_t bytes = connection.reader.payload_bytes();
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t number, PlaceChunk(connection, {.offset = head.offset,
                                                                            .bytes = bytes,
                                                                            .first = head.first,
                                                                            .items = head.items}));
  Session& session = *connection.session;
  const std::span<std::byte> target = session.region->memory().subspan(head.offset, bytes);
  connection.chunk = {.session = session.id,
                      .number = number,
                      .bytes = target,
                      .first = head.first,
                      .items = head.items,
                      .rows_read = head.rows_read};
  connection.receiving_chunk = true;
  connection.reader.SetTarget(target);
  return {};
}

void FeedServer::Impl::OnDataEnd(Connection& connection) {
  if (connection.session->phase == SessionPhase::kOver) {
    AbandonPayload(connection);
    return;
  }
  connection.receiving_chunk = false;
  Accepted(*connection.session, connection.chunk);
}

void FeedServer::Impl::AbandonPayload(Connection& connection) {
  if (!std::exchange(connection.receiving_chunk, false)) return;
  ReleaseBlock(*connection.session, connection.chunk.number);
}

void FeedServer::Impl::Accepted(Session& session, const QueuedChunk& chunk) {
  session.items += chunk.items;
  counters_.items += chunk.items;
  ++counters_.chunks;
  counters_.bytes += chunk.bytes.size();
  ++counters_.queued_chunks;
  counters_.queued_bytes += chunk.bytes.size();
  FeedQueue& queue = QueueOf(session).chunks;
  if (session.options.mode == Mode::kTrain) {
    counters_.train_items += chunk.items;
    if (session.options.until_read) session.reads.Accept();
    counters_.rows_read_elsewhere += chunk.rows_read;
    ledger_.Add(session.options.key, {chunk.first, chunk.first + chunk.items});
    queue.PushTrain(chunk);
  } else {
    queue.PushInference(chunk);
  }
  changed_.notify_all();
}

Status FeedServer::Impl::OnGrow(Connection& connection, std::uint64_t bytes) {
  const SessionPointer& session = connection.session;
  if (session == nullptr || session->phase != SessionPhase::kOpen ||
      session->ring.in_flight() > 0) {
    return {ErrorKind::kBadInput, "GROW while chunks are in use or no partition is open"};
  }
  if (bytes == 0 || (!connection.local && bytes > kDataLimit)) {
    return {ErrorKind::kBadInput,
            fmt::format("a chunk of {} bytes; over TCP at most {} fit", bytes, kDataLimit)};
  }
  pool_.GiveBack(std::move(session->region), /*reusable=*/true);
  session->ring = Ring(0);
  session->phase = SessionPhase::kGrowing;
  RequestMemory(session, bytes);
  return {};
}

Status FeedServer::Impl::OnEnd(Connection& connection, std::uint64_t items) {
  const SessionPointer& session = connection.session;
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
// The server's thread: sockets.

Status FeedServer::Impl::Start() {
  if (options_.queues.empty() || options_.region_bytes == 0 || options_.region_bytes > kDataLimit ||
      options_.memory_budget_bytes == 0) {
    return {ErrorKind::kBadInput, "a feed server needs a queue, memory and a region size"};
  }
  epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return Status::FromErrno(errno, "create an epoll set");
  wake_.Reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return Status::FromErrno(errno, "create an event descriptor");

  TFOS_ASSIGN_OR_RETURN(const std::string random, RandomHex(16));
  endpoint_.unix_name = fmt::format("tfos-{}-{}-{}", options_.cluster_id, options_.node_id, random);
  endpoint_.node_id = options_.node_id;
  TFOS_ASSIGN_OR_RETURN(unix_listener_, net::ListenUnix(endpoint_.unix_name));
  if (!options_.bind_address.empty()) {
    TFOS_ASSIGN_OR_RETURN(net::TcpListener listener, net::ListenTcp(options_.bind_address,
                                                          options_.first_port, options_.last_port));
    tcp_listener_ = std::move(listener.fd);
    endpoint_.port = listener.port;
  }
  const auto add = [&](const UniqueFd& fd, std::uint64_t id) -> Status {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
    if (!fd.valid() || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0) return {};
    return Status::FromErrno(errno, "watch a descriptor");
  };
  TFOS_RETURN_IF_ERROR(add(wake_, kWakeId));
  TFOS_RETURN_IF_ERROR(add(unix_listener_, kUnixListenerId));
  TFOS_RETURN_IF_ERROR(add(tcp_listener_, kTcpListenerId));
  // Signals are for the program's own threads: Python's main thread has to be interrupted by them.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { Run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return {};
}

void FeedServer::Impl::Close() {
  {
    const Lock lock(mutex_);
    closed_ = true;
    feed_over_ = true;
    std::vector<SessionPointer> all;
    for (const auto& [id, session] : sessions_) all.push_back(session);
    for (const SessionPointer& session : all) EndSession(session, /*orderly=*/false);
    for (auto& [name, queue] : queues_) ReleaseAll(queue.chunks.Clear());
    changed_.notify_all();
    if (wake_.valid()) Wake();
  }
  if (thread_.joinable()) thread_.join();
}

void FeedServer::Impl::Run() {
  ::pthread_setname_np(::pthread_self(), "tfos-feed");
  std::array<epoll_event, 64> events;
  std::optional<TimePoint> close_by;
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   PollTimeout(close_by));
    for (int i = 0; i < count; ++i) {
      const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
      const std::uint32_t what = events[static_cast<std::size_t>(i)].events;
      if (id == kWakeId) {
        std::uint64_t ignored = 0;
        [[maybe_unused]] const ssize_t got = ::read(wake_.get(), &ignored, sizeof(ignored));
      } else if (id == kUnixListenerId) {
        Accept(unix_listener_, /*local=*/true);
      } else if (id == kTcpListenerId) {
        Accept(tcp_listener_, /*local=*/false);
      } else {
        if ((what & EPOLLOUT) != 0) {
          if (const auto it = connections_.find(id); it != connections_.end()) Flush(*it->second);
        }
        if ((what & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
          if (const auto it = connections_.find(id); it != connections_.end()) {
            OnReadable(*it->second);
          }
        }
      }
    }
    FlushDirty();
    DropStrangers();
    if (!close_by) {
      const Lock lock(mutex_);
      if (!closed_) continue;
      close_by = Clock::Steady().Now() + kCloseGrace;
    }
    unix_listener_.Reset();
    tcp_listener_.Reset();
    const bool late = Clock::Steady().Now() >= *close_by;
    for (auto it = connections_.begin(); it != connections_.end();) {
      const Connection& connection = *(it++)->second;
      if (late || Settled(connection)) {
        Drop(connection.id, {ErrorKind::kReconnect, "the node closed"});
      }
    }
    if (connections_.empty()) return;
  }
}

int FeedServer::Impl::PollTimeout(std::optional<TimePoint> close_by) const {
  std::optional<TimePoint> first = close_by;
  const auto consider = [&first](TimePoint at) {
    if (!first || at < *first) first = at;
  };
  if (accept_again_) consider(*accept_again_);
  if (!strangers_.empty()) {
    consider(connections_.find(*strangers_.begin())->second->authenticate_by);
  }
  if (!first) return -1;
  return Deadline::After(*first - Clock::Steady().Now()).PollMilliseconds();
}

void FeedServer::Impl::Accept(const UniqueFd& listener, bool local) {
  for (;;) {
    UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      LogWarning("feed: can't accept a connection: {}", std::strerror(errno));
      accept_again_ = Clock::Steady().Now() + kAcceptPause;
      ListenFor(0);
      return;
    }
    if (!local) net::TuneTcp(fd.get());
    auto connection = std::make_unique<Connection>();
    connection->id = next_connection_++;
    connection->local = local;
    connection->peer = DescribePeer(fd.get(), local);
    connection->fd = std::move(fd);
    connection->authenticate_by = Clock::Steady().Now() + options_.authentication_timeout;
    connection->reader.set_limits({.data = 0, .result = 0, .error = 0});
    const Result<Nonce> nonce = RandomNonce();
    epoll_event event{.events = EPOLLIN, .data = {.u64 = connection->id}};
    if (!nonce.ok() ||
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->fd.get(), &event) != 0) {
      continue;  // The connection closes.
    }
    connection->watched = EPOLLIN;
    connection->nonce = *nonce;
    {
      const Lock lock(mutex_);
      Post(*connection, {.bytes = Encode(Challenge{.nonce = *nonce})});
    }
    strangers_.insert(connection->id);
    connections_.emplace(connection->id, std::move(connection));
    // At once, not when the backlog is drained: that may be more than there are descriptors.
    if (strangers_.size() > kStrangersLimit) {
      Refuse(*connections_.find(*strangers_.begin())->second,
             {ErrorKind::kBadInput, "too many others wait for authentication"});
    }
  }
}

void FeedServer::Impl::ListenFor(std::uint32_t events) {
  for (const auto& [listener, id] :
       {std::pair(&unix_listener_, kUnixListenerId), std::pair(&tcp_listener_, kTcpListenerId)}) {
    epoll_event event{.events = events, .data = {.u64 = id}};
    if (listener->valid()) ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener->get(), &event);
  }
}

void FeedServer::Impl::DropStrangers() {
  const TimePoint now = Clock::Steady().Now();
  if (accept_again_ && now >= *accept_again_) {
    accept_again_.reset();
    ListenFor(EPOLLIN);
  }
  while (!strangers_.empty()) {
    Connection& oldest = *connections_.find(*strangers_.begin())->second;
    if (now < oldest.authenticate_by) return;
    Refuse(oldest, {ErrorKind::kBadInput, "it did not authenticate in time"});
  }
}

void FeedServer::Impl::OnReadable(Connection& connection) {
  for (int i = 0; i < kReceivesPerTurn; ++i) {
    const Result<bool> more = ReceiveOnce(connection);
    if (!more.ok()) {
      if (more.status().kind() == ErrorKind::kReconnect) {
        Drop(connection.id, more.status());
      } else {
        Refuse(connection, more.status());
      }
      return;
    }
    if (!*more) return;
  }
}

/// Whether there may be more. kReconnect: the connection is over; kBadInput: refuse it.
Result<bool> FeedServer::Impl::ReceiveOnce(Connection& connection) {
  bool draining = false;
  {
    const Lock lock(mutex_);
    draining = connection.draining;
    if (draining) AbandonPayload(connection);
  }
  const std::span<std::byte> space = draining ? std::span(scratch_) : connection.reader.Space();
  const Result<net::Transfer> transfer = net::Receive(connection.fd.get(), space, nullptr);
  if (!transfer.ok()) return Status(ErrorKind::kReconnect, transfer.status().ToString());
  if (transfer->ended) return Status(ErrorKind::kReconnect, "closed by the feeder");
  if (transfer->blocked) return false;
  const bool more = transfer->bytes == space.size();
  if (draining) return more;
  connection.reader.Filled(transfer->bytes);
  for (;;) {
    TFOS_ASSIGN_OR_RETURN(const FrameReader::Event event, connection.reader.Next());
    if (event == FrameReader::Event::kNone) return more;
    TFOS_RETURN_IF_ERROR(OnEvent(connection, event));
  }
}

Status FeedServer::Impl::OnEvent(Connection& connection, FrameReader::Event event) {
  const MessageType type = connection.reader.type();
  if (!connection.authenticated) {
    if (event == FrameReader::Event::kMessage && type == MessageType::kHello) {
      return OnHello(connection);
    }
    return {ErrorKind::kBadInput, "a message before authentication"};
  }
  const Lock lock(mutex_);
  // What crossed our last word on its way.
  if (connection.draining && event == FrameReader::Event::kMessage) return {};
  // Its partition is over, and that it does not know is no mistake of the feeder.
  if (closed_ && !connection.draining && event != FrameReader::Event::kPayloadEnd) {
    return {ErrorKind::kReconnect, "the node closed"};
  }
  switch (event) {
    case FrameReader::Event::kMessage:
      return OnMessage(connection);
    case FrameReader::Event::kPayloadBegin:
      if (type == MessageType::kError) {
        connection.error_text.resize(connection.reader.payload_bytes());
        connection.reader.SetTarget(std::as_writable_bytes(std::span(connection.error_text)));
        return {};
      }
      if (type == MessageType::kData) return OnDataBegin(connection);
      return {ErrorKind::kBadInput,
              fmt::format("a {} message from a feeder", MessageTypeName(type))};
    case FrameReader::Event::kPayloadEnd:
      if (type == MessageType::kError) {
        return {ErrorKind::kReconnect, connection.error_text};
      }
      OnDataEnd(connection);
      return {};
    case FrameReader::Event::kNone:
      break;
  }
  return {};
}

Status FeedServer::Impl::OnHello(Connection& connection) {
  TFOS_ASSIGN_OR_RETURN(const Hello hello, ParseHello(connection.reader.body()));
  if (hello.version != kProtocolVersion) {
    return {ErrorKind::kBadInput, fmt::format("it speaks version {} of the feed protocol, we {}",
                                              hello.version, kProtocolVersion)};
  }
  const auto text = [](const Digest& digest) {
    return std::string_view(reinterpret_cast<const char*>(digest.data()), digest.size());
  };
  const Digest expected = FeederProof(options_.token, connection.nonce, hello.nonce);
  if (!ConstantTimeEqual(text(expected), text(hello.proof))) {
    return {ErrorKind::kBadInput, "it does not know the cluster's token"};
  }
  connection.authenticated = true;
  strangers_.erase(connection.id);
  connection.reader.set_limits({.data = connection.local ? 0 : kDataLimit, .result = 0});
  const Lock lock(mutex_);
  Post(connection,
       {.bytes = Encode(Welcome{.proof = NodeProof(options_.token, connection.nonce, hello.nonce),
                                .node_id = options_.node_id,
                                .shares_memory = connection.local})});
  return {};
}

void FeedServer::Impl::Refuse(Connection& connection, const Status& reason) {
  LogWarning("feed: refused a connection from {}: {}", connection.peer, reason.ToString());
  {
    const Lock lock(mutex_);
    ++counters_.refused_connections;
    if (connection.authenticated) {
      AbandonPayload(connection);
      PostLast(connection, EncodeError(reason.message()));
      const SessionPointer session = connection.session;
      if (session != nullptr && session->phase != SessionPhase::kOver) {
        BreakOff(session, reason.message());
      }
      return;
    }
  }
  Drop(connection.id, reason);
}

void FeedServer::Impl::Drop(std::uint64_t connection_id, const Status& reason) {
  const auto it = connections_.find(connection_id);
  Connection& connection = *it->second;
  {
    const Lock lock(mutex_);
    AbandonPayload(connection);
    if (const SessionPointer session = connection.session) {
      if (session->phase != SessionPhase::kOver) {
        BreakOff(session,
                 fmt::format("its feeder ({}) is gone: {}", connection.peer, reason.ToString()));
      }
      session->connection = nullptr;
    }
  }
  strangers_.erase(connection_id);
  connections_.erase(it);
}

void FeedServer::Impl::FlushDirty() {
  std::vector<std::uint64_t> dirty;
  {
    const Lock lock(mutex_);
    dirty.swap(dirty_);
    for (const std::uint64_t id : dirty) {
      const auto it = connections_.find(id);
      if (it == connections_.end()) continue;
      Connection& connection = *it->second;
      connection.dirty = false;
      if (const std::uint32_t credits = std::exchange(connection.credits, 0); credits > 0) {
        connection.outbox.Add(
            {.bytes = Encode(CreditMessage{.chunks = credits, .accepted_bytes = counters_.bytes})});
      }
      for (OutFrame& frame : std::exchange(connection.posted, {})) {
        connection.outbox.Add(std::move(frame));
      }
    }
  }
  for (const std::uint64_t id : dirty) {
    if (const auto it = connections_.find(id); it != connections_.end()) Flush(*it->second);
  }
}

void FeedServer::Impl::Flush(Connection& connection) {
  const Result<Outbox::Flushed> flushed = connection.outbox.Flush(connection.fd.get());
  if (!flushed.ok()) {
    Drop(connection.id, flushed.status());
    return;
  }
  bool goodbye = false;
  {
    const Lock lock(mutex_);
    if (flushed->result_bytes > 0) {
      connection.session->unread_result_bytes -= flushed->result_bytes;
      changed_.notify_all();
    }
    goodbye = connection.draining && connection.outbox.empty() && connection.posted.empty();
  }
  if (goodbye && !std::exchange(connection.said_goodbye, true)) {
    ::shutdown(connection.fd.get(), SHUT_WR);
  }
  Watch(connection, flushed->blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void FeedServer::Impl::Watch(Connection& connection, std::uint32_t events) {
  if (std::exchange(connection.watched, events) == events) return;
  epoll_event event{.events = events, .data = {.u64 = connection.id}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event);
}

/// Nothing is lost by closing it now. Over TCP, closing with unread data would take the last word
/// back, so its feeder goes first.
bool FeedServer::Impl::Settled(const Connection& connection) const {
  const Lock lock(mutex_);
  return connection.outbox.empty() && connection.posted.empty() &&
         (connection.local || !connection.draining);
}

// ---------------------------------------------------------------------------------------------

FeedServer::FeedServer(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

FeedServer::~FeedServer() { impl_->Close(); }

Result<std::unique_ptr<FeedServer>> FeedServer::Start(FeedServerOptions options) {
  auto impl = std::make_shared<Impl>(std::move(options));
  TFOS_RETURN_IF_ERROR(impl->Start().Annotate("start the feed server"));
  return std::unique_ptr<FeedServer>(new FeedServer(std::move(impl)));
}

Endpoint FeedServer::endpoint() const { return impl_->endpoint(); }

Result<feed::Next> FeedServer::Next(std::string_view queue, const Wait& wait) {
  return impl_->Next(queue, wait);
}

Result<Delivery> FeedServer::SendResult(std::uint64_t session, std::uint64_t rows,
                                        AlignedBuffer chunk, const Wait& wait) {
  return impl_->SendResult(session, rows, std::move(chunk), wait);
}

Result<Delivery> FeedServer::FinishSession(std::uint64_t session, std::uint64_t rows) {
  return impl_->FinishSession(session, rows);
}

void FeedServer::EndEpoch(std::string_view queue, std::uint32_t epoch) {
  impl_->EndEpoch(queue, epoch);
}
void FeedServer::EndFeed() { impl_->EndFeed(); }
void FeedServer::Terminate() { impl_->Terminate(); }
bool FeedServer::terminated() const { return impl_->terminated(); }
void FeedServer::Fail(std::string_view text) { impl_->Fail(text); }
void FeedServer::Close() { impl_->Close(); }
FeedCounters FeedServer::counters() const { return impl_->counters(); }

}  // namespace tfos::feed
