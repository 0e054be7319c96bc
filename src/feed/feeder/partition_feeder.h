#ifndef TFOS_FEED_FEEDER_PARTITION_FEEDER_H_
#define TFOS_FEED_FEEDER_PARTITION_FEEDER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chunk/chunk_rows.h"
#include "columns/arrow/arrow_columns.h"
#include "feed/feeder/partition_writer.h"
#include "feed/wire/item_ranges.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Feeds the items of one partition in their order, above PartitionWriter: it numbers them, leaves
/// out what the nodes have from an earlier attempt, and cuts what is too large for a chunk.
///
///   for (const Piece& piece : feeder->Take(count)) {
///     piece.checksum ? feeder->Check(piece, the chunk of these items)
///                    : Reserve(bytes), Commit(bytes, piece.items)
///   }
///
/// What an earlier attempt delivered is not sent again, but made again, chunk by chunk, and
/// compared by its checksum: the items of a partition that Spark computes again may come in another
/// order, and then leaving some out by their numbers would lose rows and double others. A caller
/// that brings items as Ahead says has all of them compared, however chunks are cut this time.
/// Chunks of which it brings only a part in a call are left out unseen.
///
/// What an earlier cluster has trained on, up to the checkpoint from which this one goes on, is
/// compared and left out in the same way. A chunk of which it has trained on a part is compared,
/// and then sent as it was: the nodes know which of its rows the program is not to get.
///
/// Owner and lifetime: owns its connections. After a failed call only destruction is useful.
/// Threads: one at a time.
/// Errors: those of PartitionWriter; but what a node says of its own failure is kUnsupported, as
/// kBadInput is for the rows of this feeder. Units: an item is what the caller counts.
class PartitionFeeder {
 public:
  static Result<std::unique_ptr<PartitionFeeder>> Open(PartitionWriterOptions options);

  /// The most bytes that a chunk of several items should have.
  std::uint64_t chunk_limit_bytes() const { return chunk_limit_bytes_; }

  /// The number of the next item.
  std::uint64_t next_item() const { return next_item_; }
  /// What comes next.
  struct Stretch {
    bool delivered = false;   ///< A chunk that was cut before, which is to be compared.
    std::uint64_t items = 0;  ///< Of that chunk; else before the next one, at most.
  };
  /// How many items the caller should bring in its next call: of a delivered chunk exactly as many,
  /// or what is left of the partition; else at most.
  Stretch Ahead() const;
  /// The same for WritePickled. A caller need not bring more batches once they have the size that
  /// chunks should have.
  Stretch BatchesAhead() const;

  /// Items that belong together: to be sent, or with a checksum to be compared.
  struct Piece {
    ItemRange items;
    std::optional<std::uint32_t> checksum;
    /// Check sends it when it was compared.
    bool partly_trained = false;
  };
  /// Numbers the next `count` items, and returns what is to be done with them. Those that are left
  /// out or compared count as delivered.
  std::vector<Piece> Take(std::uint64_t count);
  /// Compares a chunk that was cut before with what these items make now. Waits for room where it
  /// sends that.
  ///   kUnsupported  they are others than those that were fed then
  Status Check(const Piece& piece, std::span<const std::byte> chunk);

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
  ///   kUnsupported  an earlier attempt has fed items beyond the last one of this, or an earlier
  ///                 cluster has trained on them
  Result<Ended> Finish();

  /// Items that this or earlier attempts delivered; not those of an earlier cluster.
  std::uint64_t delivered_items() const { return delivered_items_; }
  /// Items that were sent once more, as the node that had them was lost before they were read.
  std::uint64_t moved_items() const { return writer_->moved_items(); }
  bool stopped() const { return writer_->stopped(); }

 private:
  PartitionFeeder(std::unique_ptr<PartitionWriter> writer, const PartitionWriterOptions& options);

  /// The delivered chunk that begins there; null when there is none, or nothing is compared.
  const AcceptedChunk* DeliveredAt(std::uint64_t item) const;
  /// Likewise of those that were trained on in part.
  const AcceptedChunk* PartlyTrainedAt(std::uint64_t item) const;
  /// Where the first chunk after `item` begins that is brought as it was cut before.
  std::uint64_t NextCut(std::uint64_t item) const;
  void CountDelivered(const ItemRange& items);
  /// Whether the partition has all items that it had, as far as that is known.
  Status CheckEnd() const;
  Status Changed(const std::string& what, bool trained) const;

  /// `items.begin` is row `first` of the batch.
  Result<std::uint64_t> WriteRows(columns::ArrowColumns& batch, std::size_t first,
                                  const ItemRange& items);

  /// `items.begin` is batch `first`.
  Result<std::uint64_t> WriteBatches(std::span<const std::uint64_t> sizes, const CopyBatch& copy,
                                     std::size_t first, const ItemRange& items);
  /// A chunk of these batches: plans it, and fills it into what `room` gives for so many bytes.
  using Room = std::function<Result<std::span<std::byte>>(std::uint64_t bytes)>;
  static Result<std::uint64_t> Pack(std::span<const std::uint64_t> sizes, const CopyBatch& copy,
                                    std::size_t first, const Room& room);

  const std::unique_ptr<PartitionWriter> writer_;
  const std::uint64_t chunk_limit_bytes_;
  const std::uint32_t partition_;
  const bool pickles_;
  const bool check_retries_;
  std::uint64_t next_item_ = 0;
  std::uint64_t delivered_items_ = 0;
  std::uint64_t batches_wanted_ = chunk::kFirstChunkBatches;
  /// The caller did not bring a chunk whole, in one call, that was trained on in part.
  bool has_missed_ = false;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_PARTITION_FEEDER_H_
