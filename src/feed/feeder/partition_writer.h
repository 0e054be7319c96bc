#ifndef TFOS_FEED_FEEDER_PARTITION_WRITER_H_
#define TFOS_FEED_FEEDER_PARTITION_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "feed/feeder/client/feed_client.h"
#include "feed/feeder/nodes/partition_nodes.h"
#include "feed/feeder/nodes/partition_options.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Feeds one partition into the nodes: the sending end above FeedClient.
///
/// Training: every chunk goes to whichever node of this host has the most room, so that nodes which
/// work at different speeds finish together. It goes over TCP to one of another host when that has
/// got much less, when those here have had no room for a while, or when there is none here. Every
/// attempt asks all nodes which items they have already got from earlier ones. A node that has got
/// nothing yet is waited for before others that have get another chunk, and one that has got
/// nothing when the partition ends is sent a sample of its rows. With `session.until_read` the
/// partition ends when the programs have read it, and a node that is lost before costs nothing:
/// what its program had not read goes to the others. A chunk that is larger than the nodes' regions
/// goes through a session of its own, while this feeder holds nothing else: two feeders that each
/// hold memory of one node and wait for more of the other would wait for ever. It goes to the first
/// node that has memory for it.
///
/// Inference: one node takes the whole partition, as its results come back in order.
///
/// Owner and lifetime: owns its connections. After a failed call only destruction is useful.
/// Threads: one at a time.
/// Errors: those of FeedClient. Units: bytes and items.
class PartitionWriter {
 public:
  /// Connects and opens the partition.
  static Result<std::unique_ptr<PartitionWriter>> Open(PartitionWriterOptions options);

  /// Items that earlier attempts delivered, or an earlier cluster has trained on: the caller skips
  /// them. Not always the first ones: a connection that broke may have lost a chunk when a later
  /// one had reached another node.
  const ItemRanges& delivered() const { return delivered_; }
  /// Those of an earlier cluster among them.
  const ItemRanges& trained() const { return trained_; }
  /// The same as the chunks that they came in, in their order.
  const std::vector<AcceptedChunk>& delivered_chunks() const { return delivered_chunks_; }
  /// Chunks of which an earlier cluster has trained on a part, in their order: they are to be
  /// brought as they were then.
  const std::vector<AcceptedChunk>& partly_trained() const { return partly_trained_; }

  /// Room for one chunk; empty when all nodes have stopped. Waits until a node has room.
  Result<std::span<std::byte>> Reserve(std::size_t bytes);
  /// Hands the reserved chunk over; it holds these items of the partition.
  Status Commit(std::size_t bytes, const ItemRange& items);

  /// Inference: as FeedClient::TakeResult.
  Result<std::optional<ResultChunk>> TakeResult(bool block);

  /// Inference: says that the partition is complete. Idempotent.
  Status End();
  /// End, then waits until the nodes have taken (train), read (train, until_read) or answered
  /// (inference) everything. `accepted_items` are those that this writer sent.
  Result<Ended> Finish();

  /// True when no node wants more rows.
  bool stopped() const;

  /// Items of chunks that were sent a second time, as a node was lost before its program had read
  /// them to the end.
  std::uint64_t moved_items() const { return moved_items_; }

 private:
  explicit PartitionWriter(PartitionWriterOptions options)
      : options_(std::move(options)), nodes_(options_) {}

  /// Sorts in what an earlier cluster has trained on.
  void AddTrained();
  Result<std::span<std::byte>> ReserveRoom(std::size_t bytes);
  /// Training: room for a chunk that no region holds, at one node and with no other session.
  Result<std::span<std::byte>> ReserveAlone(std::size_t bytes);
  Status CommitChunk(std::size_t bytes, const ItemRange& items, std::uint64_t rows_read);
  /// Training: keeps the chunk that was just written if a node has no row, to tell it what rows
  /// hold.
  void KeepSample(std::size_t bytes);
  /// Training: tells the nodes that have no row what rows hold.
  Status SendSamples();
  Status SendSample(FedNode& node, std::span<const std::byte> sample);
  /// Sends what lost nodes have left unread.
  Status Resend();

  const PartitionWriterOptions options_;
  PartitionNodes nodes_;
  std::size_t reserved_ = 0;           ///< The node that the last Reserve chose.
  std::span<std::byte> room_;          ///< What it gave.
  std::vector<std::byte> sample_;      ///< A chunk of the partition, for nodes without a row.
  std::uint64_t smallest_region_ = 0;  ///< Of the sessions that were open when it last looked.
  bool alone_ = false;  ///< A large chunk is or was the last: there is no session but its own.
  ItemRanges delivered_;
  std::vector<AcceptedChunk> delivered_chunks_;
  ItemRanges trained_;
  std::vector<AcceptedChunk> partly_trained_;
  std::uint64_t items_sent_ = 0;
  std::uint64_t moved_items_ = 0;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_PARTITION_WRITER_H_
