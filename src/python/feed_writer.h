#ifndef TFOS_PYTHON_FEED_WRITER_H_
#define TFOS_PYTHON_FEED_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "feed/arrow_columns.h"
#include "feed/partition_writer.h"
#include "python/python_object.h"
#include "python/result_batch.h"
#include "python/row_encoder.h"

namespace tfos::python {

/// Feeds one partition of a Spark task from Python: encodes rows straight into a node's memory.
///
/// Owner and lifetime: owns its connections until Close. Threads: one at a time, with the GIL,
/// which is released in all waits. Errors: throws as errors.h says; what a node says of its own
/// failure becomes a FeedError. Units: an item is a row, or a batch that Spark has pickled.
class FeedWriter {
 public:
  explicit FeedWriter(feed::PartitionWriterOptions options);

  /// Sends rows that the nodes do not have yet and returns the bytes they took. After the nodes
  /// have stopped it discards them.
  std::uint64_t WriteRows(nb::list rows);
  /// The same for batches that are already pickled: bytes-like objects, each one item.
  std::uint64_t WritePickled(nb::list batches);
  /// The same for the rows [begin, end) of an Arrow record batch: an object that has
  /// `__arrow_c_array__`. It stays as it is. Errors name rows as counted in the partition.
  std::uint64_t WriteArrow(nb::handle batch, std::size_t begin, std::size_t end,
                           feed::Decimals decimals);

  /// The next results, in order; none when nothing is there yet (`block` false) or nothing will
  /// come any more (`block` true).
  nb::object Results(bool block);
  /// The same, as they came.
  std::optional<ResultBatch> TakeResultBatch(bool block);

  void End();
  /// Waits until the nodes have taken or answered everything.
  feed::Ended Finish();
  /// Items that this or earlier attempts delivered.
  std::uint64_t delivered_items() const { return delivered_items_; }
  /// Items that were sent once more, as the node that had them was lost before they were read.
  std::uint64_t moved_items() const { return writer_ ? writer_->moved_items() : 0; }

  bool stopped() const { return writer_ && writer_->stopped(); }
  void Close() { writer_.reset(); }

 private:
  /// Calls `write` (begin, end) for those parts of the next list, which has `count` items, that
  /// earlier attempts have not delivered. Returns the bytes that they took.
  template <typename Write>
  std::uint64_t WriteMissing(std::size_t count, Write write);
  /// Empty when the nodes have stopped.
  std::span<std::byte> Reserve(std::uint64_t bytes);
  void Commit(std::uint64_t bytes, std::size_t begin, std::size_t end);
  std::uint64_t WriteEncoded(const nb::list& rows, std::size_t begin, std::size_t end);
  std::uint64_t WriteBatches(const nb::list& batches, std::size_t begin, std::size_t end);
  /// List item 0 is row `first` of the record batch.
  std::uint64_t WriteColumns(feed::ArrowColumns& columns, std::size_t first, std::size_t begin,
                             std::size_t end);
  feed::PartitionWriter& writer();

  std::unique_ptr<feed::PartitionWriter> writer_;
  std::uint64_t chunk_limit_bytes_;
  std::uint32_t partition_;
  std::uint64_t next_item_ = 0;   ///< Of the partition: the first of the next list.
  std::uint64_t list_start_ = 0;  ///< The first of the list being written.
  std::uint64_t delivered_items_ = 0;
  RowEncoder encoder_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_FEED_WRITER_H_
