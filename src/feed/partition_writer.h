#ifndef TFOS_FEED_PARTITION_WRITER_H_
#define TFOS_FEED_PARTITION_WRITER_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/secret.h"
#include "feed/feed_balancer.h"
#include "feed/feed_client.h"
#include "feed/item_ranges.h"
#include "feed/session.h"
#include "feed/wait.h"
#include "tfos/status.h"

namespace tfos::feed {

struct PartitionWriterOptions {
  // Behaviour.
  /// The nodes that may be fed, in order of preference.
  std::vector<Endpoint> endpoints;
  Secret token;
  SessionOptions session;
  /// Longest time without a word of any node that may be fed, also for connecting.
  std::chrono::milliseconds progress_timeout{600'000};
  /// Ends waits early.
  InterruptCheck check = {};

  // Performance.
  /// Nodes fed over TCP when none is on this host.
  std::size_t most_remote_nodes = 2;
};

/// Feeds one partition into the nodes: the sending end above FeedClient.
///
/// Training: every chunk goes to whichever node of this host has the most room, so that nodes
/// which work at different speeds finish together; without a node on this host to a few remote
/// ones. Every attempt asks all nodes which items they have already got from earlier ones.
/// A chunk that is larger than the nodes' regions goes through a session of its own, while this
/// feeder holds nothing else: two feeders that each hold memory of one node and wait for more of
/// the other would wait for ever.
/// Inference: one node takes the whole partition, as its results come back in order.
///
/// Owner and lifetime: owns its connections. After a failed call only destruction is useful.
/// Threads: one at a time.
/// Errors: those of FeedClient. Units: bytes and items.
class PartitionWriter {
 public:
  /// Connects and opens the partition.
  static Result<std::unique_ptr<PartitionWriter>> Open(PartitionWriterOptions options);

  /// Items that earlier attempts delivered: the caller skips them. Not always the first ones: a
  /// connection that broke may have lost a chunk when a later one had reached another node.
  const ItemRanges& delivered() const { return delivered_; }

  /// Room for one chunk; empty when all nodes have stopped. Waits until a node has room.
  Result<std::span<std::byte>> Reserve(std::size_t bytes);
  /// Hands the reserved chunk over; it holds these items of the partition.
  Status Commit(std::size_t bytes, const ItemRange& items);

  /// Inference: as FeedClient::TakeResult.
  Result<std::optional<ResultChunk>> TakeResult(bool block);

  /// Says that the partition is complete. Idempotent.
  Status End();
  /// End, then waits until the nodes have taken (train) or answered (inference) everything.
  /// `accepted_items` are those that this writer sent.
  Result<Ended> Finish();

  /// True when no node wants more rows.
  bool stopped() const;

 private:
  struct Node {
    Endpoint endpoint;
    std::unique_ptr<FeedClient> client;  ///< Null while a large chunk goes through another node.
    std::uint64_t capacity_bytes = 0;    ///< Of its region, once known.
    /// What it had accepted of all feeders at the start, and of this one since.
    std::uint64_t accepted_bytes = 0;
    bool stopped = false;  ///< It wants no more rows; for when it has no client any more.

    bool wants_rows() const { return !stopped && (client == nullptr || !client->stopped()); }
  };

  explicit PartitionWriter(PartitionWriterOptions options) : options_(std::move(options)) {}

  enum class Where { kThisHost, kAnywhere };

  /// Training: asks all nodes what they have, and picks those to feed.
  Status FindNodes();
  /// Training: opens the partition at the nodes that were picked, and waits for the first answer.
  /// Those that are gone are left out; it fails when none remains.
  Status OpenNodes();
  Status BeginOpen(Node& node);
  /// Training: ends all sessions.
  Status LeaveNodes();
  /// Training: room for a chunk that no region holds, at one node and with no other session.
  Result<std::span<std::byte>> ReserveAlone(std::size_t bytes);
  /// Leaves the node out when `status` says that it is gone; passes other failures on.
  Status LeaveOut(std::size_t node, const Status& status);
  Status Unreachable() const;
  /// Inference: opens the partition at the first node that is there.
  Status OpenOneNode(Where where);
  Result<std::unique_ptr<FeedClient>> Connect(const Endpoint& endpoint) const;
  /// Until all nodes have answered; once one has memory, for the others only a moment.
  Status AwaitAnswer();
  /// Until a node says something.
  Status WaitForWord(const Deadline& deadline) const;

  PartitionWriterOptions options_;
  std::vector<Node> nodes_;
  Status unreachable_;        ///< Why the last node that could not be reached could not.
  std::size_t reserved_ = 0;  ///< The node that the last Reserve chose.
  std::uint64_t largest_region_ = 0;
  bool alone_ = false;  ///< A large chunk is or was the last: there is no session but its own.
  bool ended_ = false;
  ItemRanges delivered_;
  std::uint64_t items_sent_ = 0;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_PARTITION_WRITER_H_
