#ifndef TFOS_FEED_FEEDER_CLIENT_FEED_CLIENT_H_
#define TFOS_FEED_FEEDER_CLIENT_FEED_CLIENT_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/crypto/secret.h"
#include "base/memory/aligned_buffer.h"
#include "base/time/deadline.h"
#include "base/time/wait.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"
#include "net/handshake/protocol.h"
#include "tfos/status.h"

namespace tfos::feed {

struct FeedClientOptions {
  /// The longest time that a call waits without a sign of progress: a credit or result for this
  /// feeder, or the node's word that its program consumes what others bring.
  std::chrono::milliseconds progress_timeout{600'000};
  /// Which TCP connections are encrypted.
  net::Encryption encryption = net::Encryption::kBetweenHosts;
  /// The number of the connecting end, for the node's log: that of the partition, or of the node
  /// that passes rows on.
  std::uint32_t number = 0;
  /// How often a node is asked that hangs up before the handshake is done, which one does that has
  /// too many strangers.
  int handshakes = 5;
  /// The most bytes of a result. A node that wants to send larger ones is refused.
  std::uint32_t most_result_bytes = 1u << 30;
  /// Ends waits early.
  InterruptCheck check = {};
};

/// The node's answer to Open.
struct Opened {
  /// The node wants no more rows: discard the partition and end well. `stopped()` says so too.
  bool feed_over = false;
};

/// What a node has accepted.
struct Counted {
  std::vector<AcceptedChunk> chunks;  ///< Of the partition, if they were asked for.
  AcceptedBytes accepted = {};
};

/// The node's answer to the end of a partition.
struct Ended {
  std::uint64_t accepted_items = 0;
  std::uint64_t result_rows = 0;
  /// The feed was terminated; the counts are zero.
  bool stopped = false;
};

/// A chunk that a node had not read, or not all of it, when it was lost.
struct UnreadChunk {
  std::span<const std::byte> bytes;
  ItemRange items;
  std::uint64_t rows_read = 0;  ///< Its first rows that were.
};

/// Answers of the node to some rows, in the order of the rows.
struct ResultChunk {
  std::uint64_t rows = 0;
  AlignedBuffer bytes;
};

/// Feeds one partition of a Spark task into a node and takes its results.
///
/// Owner and lifetime: owns its connection and its mapping of the region; spans that it gave out
/// die with it. After a failed call only destruction is useful.
/// Threads: one at a time; it has none of its own. Waiting calls need no lock of the caller.
/// Errors: the node's own failure is kBadInput with its text (a traceback); a vanished node is
/// kReconnect; no progress within `progress_timeout` is kRetryLater and says which side is idle.
/// Units: bytes and items; an item is what the caller counts.
///
/// When the node stops the feed (`stopped()`), Reserve returns an empty span, Commit does nothing
/// and Finish succeeds, so that a caller just stops reading its rows.
class FeedClient {
 public:
  /// Connects through the Unix socket, else over TCP, and shakes hands: both sides prove that they
  /// have `key`, of the purpose `feed`. A node that hangs up meanwhile may have had no room for
  /// another stranger, so it is asked again.
  ///   kReconnect  nobody listens there, or it hung up every time
  ///   kBadInput   it refuses this feeder or another channel, or does not know the key: as another
  ///               node or one of another cluster does
  ///   kRetryLater the deadline passed
  static Result<std::unique_ptr<FeedClient>> Connect(const Endpoint& endpoint, const Secret& key,
                                                     FeedClientOptions options,
                                                     const Deadline& deadline);
  /// Over a connection that has been made, and whose two ends have proved who they are.
  static std::unique_ptr<FeedClient> Over(net::Connection connection, const Endpoint& endpoint,
                                          FeedClientOptions options);
  ~FeedClient();

  /// True when chunks go through shared memory, false over TCP.
  bool shares_memory() const { return channel() == net::Channel::kLocal; }
  net::Channel channel() const;

  enum class Ask { kChunks, kBytes };  ///< For each chunk of the partition, or only how much.
  /// Asks what the node has accepted of a training partition, of any attempt, and takes over
  /// from all attempts before this one. Needs none of the node's memory. Before Open.
  ///   kSuperseded  as here and in all that follows: a later attempt has taken over from this one
  Result<Counted> Count(const PartitionKey& key, AttemptId attempt, Ask what = Ask::kChunks);

  /// Opens the partition; once. Waits while the node's memory is spent.
  ///   kBadInput  the node has no such queue
  Result<Opened> Open(const SessionOptions& session);

  /// Open without the wait: asks, and the answer comes in later with any call that reads, FreeBytes
  /// for one. Until `opened()`, chunks can't be sent.
  Status BeginOpen(const SessionOptions& session);

  /// Whether the node has granted memory for the partition.
  bool opened() const;

  /// Room for a chunk of up to `bytes` bytes (at least 1), aligned to 64: write it there, then
  /// Commit. Waits for the node to release older chunks; results that arrive meanwhile are kept
  /// for TakeResult. Another Reserve before Commit gives the first one up. Empty when stopped.
  Result<std::span<std::byte>> Reserve(std::size_t bytes);

  /// Asks for memory for a chunk of `bytes` bytes, if that is more than there is, without waiting
  /// for it: FreeBytes says when it is there. Only while the node holds no chunk.
  Status BeginGrow(std::size_t bytes);

  /// Hands the first `bytes` bytes of the reserved room to the node as one chunk: these items of
  /// the partition. `rows_read`: its first rows that another node's program has read.
  Status Commit(std::size_t bytes, const ItemRange& items, std::uint64_t rows_read = 0);

  /// What the node's program had not read, in order, in a session `until_read` after a call that
  /// failed with kReconnect. Over TCP that is known by chunks only, of those that it has given
  /// back. The bytes live as long as this.
  std::vector<UnreadChunk> Unread() const;

  /// What the node has accepted, as the last credit said.
  std::optional<AcceptedBytes> accepted() const;

  /// The largest chunk for which Reserve would not wait, as far as is known without waiting. To
  /// be compared between nodes: the one with most is the least busy.
  Result<std::size_t> FreeBytes();

  /// The next result. None: nothing there yet (`block` false), or nothing will come any more
  /// (`block` true: the partition has ended or was stopped). Blocking without End ever being
  /// called returns when a result comes.
  Result<std::optional<ResultChunk>> TakeResult(bool block);

  /// Says that the partition is complete. Idempotent.
  Status End();

  /// End, then waits until the node has taken (train) or answered (inference) everything. Results
  /// that arrive meanwhile are kept for TakeResult; a caller with many takes them first.
  Result<Ended> Finish();

  bool stopped() const;

  /// Readable when the node has said something that FreeBytes or TakeResult would notice: for
  /// callers that wait for several nodes at once.
  int fd() const;

 private:
  class Impl;
  explicit FeedClient(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_CLIENT_FEED_CLIENT_H_
