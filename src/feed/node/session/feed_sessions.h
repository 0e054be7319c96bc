#ifndef TFOS_FEED_NODE_SESSION_FEED_SESSIONS_H_
#define TFOS_FEED_NODE_SESSION_FEED_SESSIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/process/unique_fd.h"
#include "base/thread/mutex.h"
#include "base/time/wait.h"
#include "feed/node/session/feed_session.h"
#include "feed/node/session/feeder_messages.h"
#include "feed/node/session/node_types.h"
#include "feed/node/session/session_table.h"
#include "feed/wire/frame.h"
#include "feed/wire/outbox.h"
#include "feed/wire/region.h"
#include "tfos/status.h"

namespace tfos::feed {

/// The partitions that are fed to a node, for many threads: consumers wait here for chunks, and the
/// listener passes on what feeders say. What happens is the table's to decide; this has the lock,
/// and does what the table leaves to be done once it is free.
///
/// Owner and lifetime: shared by the server, its listener and the loans, which may outlive both.
/// Threads: any; one lock guards everything. It is never held over a system call or a log line. A
/// thread that stands still in one of them, as memory is short or the log's disk is slow, must not
/// stop the others.
/// Errors: those of the messages are the feeder's fault (kBadInput: refuse it) or say that the node
/// has closed (kReconnect: drop it).
class FeedSessions : public ChunkLender, public std::enable_shared_from_this<FeedSessions> {
 public:
  /// Memory for feeders comes from `source`.
  static Result<std::shared_ptr<FeedSessions>> Create(FeedServerOptions options,
                                                      RegionPool::Source source = &Region::Create);

  // For consumers: see FeedServer.
  Result<feed::Next> Next(std::string_view queue, const Wait& wait) TFOS_EXCLUDES(mutex_);
  Result<ChunkLoan> NextPassed(std::string_view queue, std::uint32_t epoch, const Wait& wait)
      TFOS_EXCLUDES(mutex_);
  Result<Delivery> SendResult(std::uint64_t session, std::uint64_t rows, AlignedBuffer chunk,
                              const Wait& wait) TFOS_EXCLUDES(mutex_);
  Result<Delivery> FinishSession(std::uint64_t session, std::uint64_t rows) TFOS_EXCLUDES(mutex_);
  void EndEpoch(std::string_view queue, std::uint32_t epoch) TFOS_EXCLUDES(mutex_);
  void AbandonEpoch(std::string_view queue, std::uint32_t epoch, const JobId& job)
      TFOS_EXCLUDES(mutex_);
  void EndJob(const JobId& job) TFOS_EXCLUDES(mutex_);
  void EndFeed() TFOS_EXCLUDES(mutex_);
  void Terminate() TFOS_EXCLUDES(mutex_);
  bool terminated() const TFOS_EXCLUDES(mutex_);
  void Fail(std::string_view text) TFOS_EXCLUDES(mutex_);
  void Close() TFOS_EXCLUDES(mutex_);
  bool closed() const TFOS_EXCLUDES(mutex_);
  FeedCounters counters() const TFOS_EXCLUDES(mutex_);
  const FeedServerOptions& options() const { return options_; }

  // For loans.
  Result<PrivateView> MapPrivately(const QueuedChunk& chunk) const override TFOS_EXCLUDES(mutex_);
  void MarkRead(std::uint64_t session, std::uint64_t number, std::uint64_t rows) override
      TFOS_EXCLUDES(mutex_);
  void Release(std::uint64_t session, std::uint64_t number) override TFOS_EXCLUDES(mutex_);

  // For the listener.
  /// Whether what it still sends is to be discarded unread.
  bool Draining(FeederLink& link) TFOS_EXCLUDES(mutex_);
  /// For these three see FeederMessages.
  Status OnMessage(FeederLink& link, MessageType type, std::span<const std::byte> body)
      TFOS_EXCLUDES(mutex_);
  Result<std::span<std::byte>> OnDataBegin(FeederLink& link, std::span<const std::byte> body,
                                           std::uint32_t bytes) TFOS_EXCLUDES(mutex_);
  Status OnDataEnd(FeederLink& link) TFOS_EXCLUDES(mutex_);
  /// Tells the feeder why nothing more is taken from it.
  void Refuse(FeederLink& link, const Status& reason) TFOS_EXCLUDES(mutex_);

  // For the listener, about any link.
  void Say(FeederLink& link, std::string frame) TFOS_EXCLUDES(mutex_);
  void CountRefusal() TFOS_EXCLUDES(mutex_);
  /// The connection is over; the link may go.
  void Gone(FeederLink& link, std::string_view why) TFOS_EXCLUDES(mutex_);
  /// Readable when something is to be said to a link, or Close was called.
  int wake_fd() const { return wake_.get(); }
  /// The ids of the links that something is to be said to.
  std::vector<std::uint64_t> TakeChanged() TFOS_EXCLUDES(mutex_);
  /// All that is to be said to the link. To be asked once its socket has taken what it got before.
  std::vector<OutFrame> TakePosted(FeederLink& link) TFOS_EXCLUDES(mutex_);

  struct AfterSent {
    bool more = false;       ///< Something is to be said to the link by now.
    bool last_word = false;  ///< The last word is out, if the socket has taken everything.
  };
  /// Results of so many bytes are out.
  AfterSent Sent(FeederLink& link, std::uint64_t result_bytes) TFOS_EXCLUDES(mutex_);
  /// Nothing is lost by closing the connection now, if the socket has taken everything.
  bool Settled(const FeederLink& link) const TFOS_EXCLUDES(mutex_);

 private:
  using SessionPointer = SessionTable::SessionPointer;

  /// Holds the lock, and does the chores that are left when it gives it up.
  class TFOS_THREAD_SAFETY(scoped_lockable) Turn {
   public:
    explicit Turn(FeedSessions& sessions) TFOS_ACQUIRE(sessions.mutex_);
    ~Turn() TFOS_RELEASE();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    FeedSessions& sessions_;
  };

  FeedSessions(FeedServerOptions options, UniqueFd wake, RegionPool::Source source);

  /// Gives the lock up and does what is left to do.
  void GiveUpTurn() TFOS_RELEASE(mutex_);
  void Do(Chores chores) TFOS_EXCLUDES(mutex_);
  /// What `call` returns, which is made without the lock; a failure where it throws.
  template <typename Call>
  std::invoke_result_t<Call&> WithoutLock(Call call) TFOS_REQUIRES(mutex_);
  Result<GrantedMemory> GetMemory(const Chores::Grant& grant, std::uint64_t spare)
      TFOS_EXCLUDES(mutex_);
  /// A loan of what was taken, or the mark as consumers see it.
  Result<feed::Next> Hand(Epochs& epochs, const FeedQueue::Item& item) TFOS_REQUIRES(mutex_);
  ChunkLoan Lend(const QueuedChunk& chunk) TFOS_REQUIRES(mutex_);
  Result<ChunkLoan> LendCached(const FeedQueue::CachedChunk& chunk) TFOS_REQUIRES(mutex_);
  /// Lends the chunk, and keeps a copy if its epoch is to be replayed.
  Result<ChunkLoan> LendAndCache(Epochs& epochs, const QueuedChunk& chunk) TFOS_REQUIRES(mutex_);
  Status CacheFailed(const Status& cause) TFOS_REQUIRES(mutex_);

  const FeedServerOptions options_;
  const UniqueFd wake_;
  RegionPool pool_;

  mutable Mutex mutex_;
  CondVar changed_;  ///< Anything a consumer waits for.
  SessionTable table_ TFOS_GUARDED_BY(mutex_);
  FeederMessages messages_ TFOS_GUARDED_BY(mutex_);
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_SESSION_FEED_SESSIONS_H_
