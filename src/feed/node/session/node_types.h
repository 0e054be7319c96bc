#ifndef TFOS_FEED_NODE_SESSION_NODE_TYPES_H_
#define TFOS_FEED_NODE_SESSION_NODE_TYPES_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/crypto/secret.h"
#include "base/time/deadline.h"
#include "feed/node/session/chunk_loan.h"
#include "feed/wire/item_ranges.h"
#include "net/handshake/protocol.h"

// What a node's feed is told, what it gives, and what it counts.

namespace tfos::feed {

/// A chunk of which an earlier cluster has trained on some rows, up to the checkpoint from which
/// this one goes on. It comes in the first epoch of its queue. A value. Threads: plain data.
struct PartlyTrained {
  std::uint32_t partition = 0;
  AcceptedChunk chunk = {};
  ItemRanges rows = {};
};

struct FeedServerOptions {
  // Behaviour.
  std::uint32_t node_id = 0;
  Secret key = {};  ///< Of the purpose `feed`.
  /// Which TCP connections are encrypted.
  net::Encryption encryption = net::Encryption::kBetweenHosts;
  /// Whether rows may be pickles, which can run any code when they are read.
  bool pickles = true;
  std::string cluster_id = {};
  /// The queues that may be fed; a feeder of another one is refused.
  std::vector<std::string> queues = {"input"};
  /// Of the first epoch of a queue: the program does not get these rows, unless the epoch begins
  /// anew (SessionOptions::without_trained).
  std::string trained_queue = {};
  std::vector<PartlyTrained> trained_before = {};
  /// Where TCP feeders connect to. Empty: no TCP.
  std::string bind_address = "0.0.0.0";
  /// TCP ports to try, first to last; 0 to 0 is any free one.
  std::uint16_t first_port = 0;
  std::uint16_t last_port = 0;
  /// How long a new connection may take to prove that it knows the key.
  std::chrono::milliseconds handshake_patience{10'000};
  /// How long a feeder may take no results before it is given up.
  std::chrono::milliseconds results_patience = std::chrono::hours{2};
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
  /// Items given back to feeders: their session broke off, and lasts until all is read.
  std::uint64_t withdrawn_items = 0;
  /// Rows of chunks, by the programs of lost nodes, or of an earlier cluster.
  std::uint64_t rows_read_elsewhere = 0;
  std::uint64_t replayed_items = 0;  ///< Handed out again.
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
  std::uint64_t known_partitions = 0;     ///< Now: what came of them is remembered.
  std::uint64_t broken_sessions = 0;
  std::uint64_t refused_connections = 0;  ///< Did not prove themselves, or broke the protocol.
  // Those that wait now included:
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
  /// Said by readers: the driver has ended it. False: the feed has ended before.
  bool is_whole = true;
};

/// No chunk will come any more.
struct EndOfFeed {};

using Next = std::variant<ChunkLoan, PartitionEnd, EndOfEpoch, EndOfFeed>;

enum class Delivery {
  kSent,
  kDiscarded,  ///< The feeder is gone; Spark runs its partition again elsewhere or later.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_SESSION_NODE_TYPES_H_
