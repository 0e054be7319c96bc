#ifndef TFOS_FEED_NODE_FEED_SERVER_H_
#define TFOS_FEED_NODE_FEED_SERVER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/deadline.h"
#include "base/secret.h"
#include "base/wait.h"
#include "feed/node/chunk_loan.h"
#include "feed/wire/region.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

class FeedListener;
class FeedSessions;

struct FeedServerOptions {
  // Behaviour.
  std::uint32_t node_id = 0;
  Secret token = {};
  std::string cluster_id = {};
  /// The queues that may be fed; a feeder of another one is refused.
  std::vector<std::string> queues = {"input"};
  /// Where TCP feeders connect to. Empty: no TCP.
  std::string bind_address = "0.0.0.0";
  /// TCP ports to try, first to last; 0 to 0 is any free one.
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 0;
  /// How long a new connection may take to prove that it knows the token.
  std::chrono::milliseconds authentication_timeout{5000};
  /// Says when feeders are to hear again that the program consumes. Outlives the server.
  const Clock* progress_clock = &Clock::Steady();

  // Performance. The memory is used up to these limits only while feeders are faster than the node.
  /// All regions together, in bytes. A single larger region is granted when it is alone.
  std::uint64_t memory_budget_bytes = 256ull << 20;
  /// The region of one feeder, in bytes; at most all the memory.
  std::uint64_t region_bytes = 32ull << 20;
  /// Largest result chunk, in bytes.
  std::uint32_t result_limit_bytes = 1u << 30;
  /// Memory of all cached epochs together, in bytes; further chunks go to files.
  std::uint64_t cache_memory_bytes = 1ull << 30;
  /// Where those files are.
  std::string cache_directory = "/tmp";
  /// Results that wait for a slow feeder, in bytes; SendResult blocks beyond it. One always fits.
  std::uint64_t result_queue_bytes = 8ull << 20;
};

/// A snapshot; the totals only grow.
struct FeedCounters {
  std::uint64_t items = 0;        ///< Accepted.
  std::uint64_t train_items = 0;  ///< Those for training.
  std::uint64_t taken_items = 0;  ///< Of those, by consumers.
  /// Of those, given back to feeders: their session broke off, and lasts until all is read.
  std::uint64_t withdrawn_items = 0;
  std::uint64_t rows_read_elsewhere = 0;  ///< Rows of chunks, by the programs of lost nodes.
  std::uint64_t replayed_items = 0;       ///< Handed out again.
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t result_rows = 0;
  std::uint64_t result_bytes = 0;
  std::uint64_t queued_chunks = 0;        ///< Now.
  std::uint64_t queued_bytes = 0;         ///< Now.
  std::uint64_t open_sessions = 0;        ///< Now.
  std::uint64_t region_bytes_in_use = 0;  ///< Now, of the budget.
  std::uint64_t cache_memory_bytes = 0;   ///< Now.
  std::uint64_t cache_file_bytes = 0;     ///< Now.
  std::uint64_t broken_sessions = 0;
  std::uint64_t refused_connections = 0;      ///< Failed authentication or broke the protocol.
  std::chrono::nanoseconds consumer_wait{0};  ///< Consumers waited for chunks.
  std::chrono::nanoseconds feeder_wait{0};    ///< Feeders waited for memory to be granted.
};

/// All chunks of an inference partition were handed out.
struct PartitionEnd {
  std::uint64_t session = 0;
  std::uint32_t partition = 0;
  /// The feeder is gone: forget the rows of this session that were not answered yet.
  bool broken = false;
};

/// All train chunks of an epoch were handed out.
struct EndOfEpoch {
  std::uint32_t epoch = 0;
};

/// No chunk will come any more.
struct EndOfFeed {};

using Next = std::variant<ChunkLoan, PartitionEnd, EndOfEpoch, EndOfFeed>;

enum class Delivery {
  kSent,
  kDiscarded,  ///< The feeder is gone; Spark runs its partition again elsewhere or later.
};

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

  /// No partition will be opened any more: consumers get what is queued or still arriving in open
  /// sessions, then EndOfFeed.
  void EndFeed();

  /// The consumer wants no more: drops what is queued, tells the feeders to discard the rest.
  void Terminate();
  bool terminated() const;

  /// The node failed: every feeder, now and until Close, gets `text` (a traceback) as its error.
  void Fail(std::string_view text);

  /// Ends all sessions and the thread. Idempotent.
  void Close();

  FeedCounters counters() const;

  /// Of the cluster.
  const Secret& token() const;

 private:
  FeedServer(std::shared_ptr<FeedSessions> sessions, std::unique_ptr<FeedListener> listener);

  const std::shared_ptr<FeedSessions> sessions_;
  const std::unique_ptr<FeedListener> listener_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_FEED_SERVER_H_
