#ifndef TFOS_FEED_NODE_FEED_SESSIONS_H_
#define TFOS_FEED_NODE_FEED_SESSIONS_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/unique_fd.h"
#include "base/wait.h"
#include "feed/node/cached_epoch.h"
#include "feed/node/feed_queue.h"
#include "feed/node/feed_server.h"
#include "feed/node/ledger.h"
#include "feed/wire/frame.h"
#include "feed/wire/outbox.h"
#include "feed/wire/region.h"
#include "tfos/status.h"

namespace tfos::feed {

struct FeedSession;

/// One feeder as the sessions see it: what it has open, and what is to be said to it.
///
/// Owner and lifetime: the connection's, until `FeedSessions::Gone`. Threads: but for `id` and
/// `local`, only FeedSessions touches it, under its lock.
struct FeederLink {
  std::uint64_t id = 0;
  bool local = false;  ///< On the Unix socket: shares memory.

  std::shared_ptr<FeedSession> session;
  bool receiving_chunk = false;  ///< `chunk` is on its way into the session's region.
  QueuedChunk chunk;
  std::vector<OutFrame> posted;  ///< To be said.
  std::uint32_t credits = 0;     ///< To be sent as one CREDIT.
  bool dirty = false;            ///< Listed among those to whom something is to be said.
  bool draining = false;         ///< The last word was posted; what still comes is discarded.
};

/// What a node knows of the partitions that are fed to it: their sessions, their memory, the chunks
/// that wait, and the count of what was accepted. It sees feeders as links and messages; their
/// sockets are the listener's.
///
/// Owner and lifetime: shared by the server, its listener and the loans, which may outlive both.
/// Threads: any; one lock guards everything.
/// Errors: those of the messages are the feeder's fault (kBadInput: refuse it) or say that the node
/// has closed (kReconnect: drop it).
class FeedSessions : public ChunkLender, public std::enable_shared_from_this<FeedSessions> {
 public:
  static Result<std::shared_ptr<FeedSessions>> Create(FeedServerOptions options);

  // For consumers: see FeedServer.
  Result<feed::Next> Next(std::string_view queue, const Wait& wait);
  Result<ChunkLoan> NextPassed(std::string_view queue, std::uint32_t epoch, const Wait& wait);
  Result<Delivery> SendResult(std::uint64_t session, std::uint64_t rows, AlignedBuffer chunk,
                              const Wait& wait);
  Result<Delivery> FinishSession(std::uint64_t session, std::uint64_t rows);
  void EndEpoch(std::string_view queue, std::uint32_t epoch);
  void EndFeed();
  void Terminate();
  bool terminated() const;
  void Fail(std::string_view text);
  void Close();
  bool closed() const;
  FeedCounters counters() const;
  const Secret& token() const { return options_.token; }

  // For loans.
  Result<PrivateView> MapPrivately(const QueuedChunk& chunk) const override;
  void MarkRead(std::uint64_t session, std::uint64_t number, std::uint64_t rows) override;
  void Release(std::uint64_t session, std::uint64_t number) override;

  // For the listener, about links whose feeder has authenticated itself.
  /// Whether what it still sends is to be discarded unread.
  bool Draining(FeederLink& link);
  Status OnMessage(FeederLink& link, MessageType type, std::span<const std::byte> body);
  /// Where a chunk that comes over TCP is to be written: `bytes` of the session's region.
  Result<std::span<std::byte>> OnDataBegin(FeederLink& link, std::span<const std::byte> body,
                                           std::uint32_t bytes);
  void OnDataEnd(FeederLink& link);
  /// Tells the feeder why nothing more is taken from it.
  void Refuse(FeederLink& link, const Status& reason);

  // For the listener, about any link.
  void Say(FeederLink& link, std::string frame);
  void CountRefusal();
  /// The connection is over; the link may go.
  void Gone(FeederLink& link, std::string_view why);
  /// Readable when something is to be said to a link, or Close was called.
  int wake_fd() const { return wake_.get(); }
  /// The ids of the links that something is to be said to.
  std::vector<std::uint64_t> TakeDirty();
  std::vector<OutFrame> TakePosted(FeederLink& link);
  /// Results of so many bytes are out. Returns whether the last word is, if the socket has taken
  /// everything.
  bool Sent(FeederLink& link, std::uint64_t result_bytes, bool everything);
  /// Nothing is lost by closing the connection now, if the socket has taken everything.
  bool Settled(const FeederLink& link) const;

 private:
  using Lock = std::unique_lock<std::mutex>;
  using SessionPointer = std::shared_ptr<FeedSession>;

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
    /// By epoch: what other nodes have passed on.
    std::map<std::uint32_t, std::deque<QueuedChunk>> passed;
  };
  struct MemoryRequest {
    SessionPointer session;
    std::uint64_t bytes = 0;
    Clock::TimePoint since;
  };

  FeedSessions(FeedServerOptions options, UniqueFd wake);

  // Everything below needs the lock.
  Status OnCount(FeederLink& link, const CountMessage& message);
  Status OnOpen(FeederLink& link, SessionOptions options);
  /// Null when the epoch is not replayed.
  std::shared_ptr<CachedEpoch> CacheFor(Queue& queue, const SessionOptions& options);
  void EndEpochsBefore(Queue& queue, std::uint64_t epoch);
  Status OnChunk(FeederLink& link, const ChunkMessage& message);
  void AbandonPayload(FeederLink& link);
  Status OnGrow(FeederLink& link, std::uint64_t bytes);
  Status OnEnd(FeederLink& link, std::uint64_t items);
  /// The block of the ring that the chunk takes, if the session may send it.
  Result<std::uint64_t> PlaceChunk(FeederLink& link, const ChunkMessage& message);
  void Accepted(FeedSession& session, const QueuedChunk& chunk);
  void RequestMemory(const SessionPointer& session, std::uint64_t bytes);
  void GrantMemory();
  void Grant(const SessionPointer& session, std::uint64_t bytes);
  Status SendRegion(FeedSession& session, std::string frame);
  /// Whether the attempt may bring the partition: then no other one does any more. Else that was
  /// said to it, and was the last word.
  bool TakesOver(FeederLink& link, const PartitionKey& key, const Attempt& attempt);
  void BreakOff(const SessionPointer& session, std::string_view why);
  void EndSession(SessionPointer session, bool orderly);
  /// All that a training partition brought was accepted, and read if it lasts until then.
  void EndTraining(const SessionPointer& session);
  /// Gives up what its feeder brought and no consumer has taken.
  void Withdraw(FeedSession& session);
  void RecordRead(const SessionPointer& session, std::uint64_t number, std::uint64_t rows);
  void ReleaseAll(const std::vector<QueuedChunk>& chunks);
  void ReleasePassed(Queue& queue);
  void ReleaseBlock(FeedSession& session, std::uint64_t number);
  void Retire(FeedSession& session);
  void Post(FeederLink& link, OutFrame frame);
  void PostLast(FeederLink& link, std::string frame);
  void MarkDirty(FeederLink& link);
  void StopAll(const std::string& last_frame);
  void Wake();
  void CountOut(const QueuedChunk& chunk);
  ChunkLoan Lend(const QueuedChunk& chunk);
  Result<ChunkLoan> LendCached(Lock& lock, const FeedQueue::CachedChunk& chunk);
  Status CacheFailed(const Status& cause);
  Result<ChunkLoan> LendAndCache(Lock& lock, Queue& queue, const QueuedChunk& chunk);
  void TellProgress();
  SessionPointer FindOpen(std::uint64_t id) const;
  Queue& QueueOf(const FeedSession& session);
  bool IsCurrent(const FeedSession& session);
  Status WaitOn(Lock& lock, const Wait& wait, std::string_view what);

  const FeedServerOptions options_;
  const UniqueFd wake_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  ///< Anything a consumer waits for.
  RegionPool pool_;
  const std::shared_ptr<CacheAccount> cache_account_;
  std::map<std::string, Queue, std::less<>> queues_;
  std::map<std::uint64_t, SessionPointer> sessions_;  ///< Until over and all chunks released.
  std::uint64_t next_session_ = 1;
  std::deque<MemoryRequest> memory_requests_;
  Ledger ledger_;
  std::vector<std::uint64_t> dirty_;  ///< Links that something is to be said to.
  bool feed_over_ = false;
  bool terminated_ = false;
  bool closed_ = false;
  std::optional<std::string> failure_;
  std::optional<Clock::TimePoint> progress_told_;
  FeedCounters counters_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_FEED_SESSIONS_H_
