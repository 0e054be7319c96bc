#ifndef TFOS_FEED_NODE_FEED_SERVER_H_
#define TFOS_FEED_NODE_FEED_SERVER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/memory/aligned_buffer.h"
#include "base/time/wait.h"
#include "feed/node/session/node_types.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

class FeedListener;
class FeedSessions;

/// Takes rows from Spark tasks into a node and gives results back, as docs/formats/
/// feed-protocol.md says. One for each node, in the node's process.
///
/// Owner and lifetime: owns its sockets, its thread and the memory of all regions; the destructor
/// closes. Loans may outlive it.
/// Threads: everything may be called from any thread. One thread of its own does all socket work.
/// Errors: a feeder's failure or misbehaviour ends only that feeder's session and is logged. Calls
/// fail with kRetryLater when their deadline passed, and with what the interrupt check returned.
/// Units: bytes and items; an item is what the feeder counts.
///
/// A consumer that holds loans while it waits for the next chunk must be able to go on without
/// it: the chunks lent out are the memory that the feeder waits for.
class FeedServer {
 public:
  /// Fails with kBadInput for impossible options, kRetryLater when no port of the range is free.
  static Result<std::unique_ptr<FeedServer>> Start(FeedServerOptions options);
  ~FeedServer();

  /// The socket's name and the TCP port; `host` is left for the caller to fill in.
  Endpoint endpoint() const;

  /// The next thing of `queue`:
  ///   ChunkLoan     a chunk. Train: of any session, in order of arrival. Inference: of the same
  ///                 session until its PartitionEnd
  ///   PartitionEnd  inference only: answer what is missing, then call FinishSession
  ///   EndOfEpoch    train only: in its place among the chunks, see EndEpoch
  ///   EndOfFeed     after EndFeed when all is taken, and after Terminate or Close
  ///   kRetryLater   nothing came within the deadline
  ///   kBadInput     there is no such queue
  Result<feed::Next> Next(std::string_view queue, const Wait& wait);

  /// The next chunk that another node has passed on for this epoch of `queue`: of its rows those
  /// from item `first_item()` on, as many as it has items.
  ///   kRetryLater   nothing came within the deadline
  ///   kReconnect    the server was closed
  Result<ChunkLoan> NextPassed(std::string_view queue, std::uint32_t epoch, const Wait& wait);

  /// Sends the answer to `rows` rows of an inference session, in the order of its rows. Waits
  /// while the feeder has too many unread results.
  ///   kBadInput  larger than the limit; nothing was sent
  Result<Delivery> SendResult(std::uint64_t session, std::uint64_t rows, AlignedBuffer chunk,
                              const Wait& wait);

  /// Ends an inference session whose rows were all answered.
  Result<Delivery> FinishSession(std::uint64_t session, std::uint64_t rows);

  /// All rows of this epoch of `queue` and of those before it have been accepted, by this node or
  /// others: puts a mark for each of them behind the train chunks of the queue, where there is none
  /// yet. To be called once the Spark job that fed the epoch has ended. A feeder that opens a
  /// partition of a later epoch says the same, as it may be faster than this call. Nothing happens
  /// for an unknown queue, or once the feed was terminated, failed or closed.
  void EndEpoch(std::string_view queue, std::uint32_t epoch);

  /// The job that fed this epoch of `queue` was interrupted: what it has brought stays queued, as a
  /// part of the epoch, but is not kept for replays. The next job feeds the epoch from its
  /// beginning. Its partitions say the same, but perhaps not one of them comes to this node.
  /// Nothing happens for an unknown queue or an epoch that is over.
  void AbandonEpoch(std::string_view queue, std::uint32_t epoch, const JobId& job);

  /// No task of the job comes any more, however it ended: what was accepted of its partitions is
  /// forgotten. One that comes all the same is told that the feed is over.
  void EndJob(const JobId& job);

  /// No partition will be opened any more: consumers get what is queued or still arriving in open
  /// sessions, then EndOfFeed.
  void EndFeed();

  /// Rows that came are not to be read any more, where a reader may end before those of other
  /// nodes. Readers ask for that themselves (`reading_stopped`): nothing changes here, as one that
  /// goes in step with others still needs the rows of the steps that those may have begun.
  void StopReading() { reading_stopped_ = true; }
  bool reading_stopped() const { return reading_stopped_; }

  /// The consumer wants no more: drops what is queued, tells the feeders to discard the rest.
  void Terminate();
  /// Whether consumers get nothing more: the feed was terminated, has failed or is closed.
  bool terminated() const;

  /// The node failed: every feeder, now and until Close, gets `text` (a traceback) as its error.
  void Fail(std::string_view text);

  /// Ends all sessions and the thread. Idempotent.
  void Close();

  FeedCounters counters() const;

  /// To connect to another node's feed.
  const Secret& key() const;
  net::Encryption encryption() const;
  /// Whether rows may be pickles. If not, a chunk that is one must not be read.
  bool pickles() const;

 private:
  FeedServer(std::shared_ptr<FeedSessions> sessions, std::unique_ptr<FeedListener> listener);

  const std::shared_ptr<FeedSessions> sessions_;
  const std::unique_ptr<FeedListener> listener_;
  std::atomic<bool> reading_stopped_ = false;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_FEED_SERVER_H_
