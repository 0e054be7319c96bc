#ifndef TFOS_FEED_FEEDER_PARTITION_FEEDER_H_
#define TFOS_FEED_FEEDER_PARTITION_FEEDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "columns/arrow/arrow_columns.h"
#include "feed/feeder/partition_writer.h"
#include "feed/wire/item_ranges.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Feeds the items of one partition in their order, above PartitionWriter: it numbers them, leaves
/// out what the nodes have from an earlier attempt, and cuts what is too large for a chunk.
///
///   for (ItemRange items : feeder->Take(count)) { ... Reserve(bytes), Commit(bytes, items) }
///
/// Owner and lifetime: owns its connections. After a failed call only destruction is useful.
/// Threads: one at a time.
/// Errors: those of PartitionWriter; but what a node says of its own failure is kUnsupported, as
/// kBadInput is for the rows of this feeder. Units: an item is what the caller counts.
class PartitionFeeder {
 public:
  static Result<std::unique_ptr<PartitionFeeder>> Open(PartitionWriterOptions options);

  /// Of several items none should take more than this.
  std::uint64_t chunk_limit_bytes() const { return chunk_limit_bytes_; }

  /// The number of the next item.
  std::uint64_t next_item() const { return next_item_; }
  /// Numbers the next `count` items, and returns those of them that the nodes lack. The others
  /// count as delivered.
  std::vector<ItemRange> Take(std::uint64_t count);

  /// Room for a chunk; empty when no node wants more.
  Result<std::span<std::byte>> Reserve(std::uint64_t bytes);
  /// Hands the reserved chunk over.
  Status Commit(std::uint64_t bytes, const ItemRange& items);

  /// Takes and sends the rows [begin, end), which the batch has. Returns the bytes that were sent;
  /// silently it discards rows that no node wants.
  Result<std::uint64_t> Write(columns::ArrowColumns& batch, std::size_t begin, std::size_t end);

  /// Writes batch `i` at the address, all of it.
  using CopyBatch = std::function<void(std::size_t i, std::byte* to)>;
  /// Whether rows may go as pickles.
  bool pickles() const { return pickles_; }
  /// The same for batches of rows that Spark has pickled, which are passed on unopened: each is an
  /// item. Bad input where rows may not go as pickles. `sizes` are their bytes; `copy` is called
  /// for those that are sent.
  Result<std::uint64_t> WritePickled(std::span<const std::uint64_t> sizes, const CopyBatch& copy);

  /// Inference: as PartitionWriter's.
  Result<std::optional<ResultChunk>> TakeResult(bool block);
  Status End();
  /// Waits until the nodes have taken or answered everything.
  Result<Ended> Finish();

  /// Items that this or earlier attempts delivered.
  std::uint64_t delivered_items() const { return delivered_items_; }
  /// Items that were sent once more, as the node that had them was lost before they were read.
  std::uint64_t moved_items() const { return writer_->moved_items(); }
  bool stopped() const { return writer_->stopped(); }

 private:
  PartitionFeeder(std::unique_ptr<PartitionWriter> writer, const SessionOptions& session,
                  bool pickles);

  /// `items.begin` is row `first` of the batch.
  Result<std::uint64_t> WriteRows(columns::ArrowColumns& batch, std::size_t first,
                                  const ItemRange& items);

  /// `items.begin` is batch `first`.
  Result<std::uint64_t> WriteBatches(std::span<const std::uint64_t> sizes, const CopyBatch& copy,
                                     std::size_t first, const ItemRange& items);

  const std::unique_ptr<PartitionWriter> writer_;
  const std::uint64_t chunk_limit_bytes_;
  const std::uint32_t partition_;
  const bool pickles_;
  std::uint64_t next_item_ = 0;
  std::uint64_t delivered_items_ = 0;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_PARTITION_FEEDER_H_
