#ifndef TFOS_PYTHON_FEED_FEED_WRITER_H_
#define TFOS_PYTHON_FEED_FEED_WRITER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "columns/arrow/arrow_columns.h"
#include "feed/feeder/partition_feeder.h"
#include "python/codec/result_batch.h"
#include "python/codec/row_encoder.h"
#include "python/objects/exclusive.h"
#include "python/objects/python_object.h"

namespace tfos::python {

/// Feeds one partition of a Spark task from Python: encodes rows straight into a node's memory.
///
/// Owner and lifetime: owns its connections until Close, or until the end of the call that Close
/// meets. Threads: one at a time, with the GIL, which is released in all waits; a second one is
/// told so. Close may come from any. Errors: throws as errors.h says. Units: an item is a row, or a
/// batch that Spark has pickled.
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
                           columns::Decimals decimals);

  /// The next results, in order; none when nothing is there yet (`block` false) or nothing will
  /// come any more (`block` true).
  nb::object Results(bool block);
  /// The same, as they came.
  std::optional<ResultBatch> TakeResultBatch(bool block);

  void End();
  /// Waits until the nodes have taken or answered everything.
  feed::Ended Finish();
  /// Items that this or earlier attempts delivered.
  std::uint64_t delivered_items();
  /// Items that were sent once more, as the node that had them was lost before they were read.
  std::uint64_t moved_items();

  /// As PartitionFeeder's: what the next call should bring.
  feed::PartitionFeeder::Stretch Ahead();
  feed::PartitionFeeder::Stretch BatchesAhead();
  bool stopped();
  void Close();

 private:
  /// The time of a call: refuses a second one, and one after Close.
  class Use {
   public:
    Use(FeedWriter& writer, const char* method);
    ~Use();
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    FeedWriter& writer_;
    const OneCaller only_;
  };

  /// Empty when the nodes have stopped.
  std::span<std::byte> Reserve(std::uint64_t bytes);
  void Commit(std::uint64_t bytes, const feed::ItemRange& items);
  /// Item `begin` of the list is the first of `items`.
  std::uint64_t WriteEncoded(const nb::list& rows, std::size_t begin, const feed::ItemRange& items);
  /// Likewise, for rows that an earlier attempt has delivered.
  void Compare(const nb::list& rows, std::size_t begin, const feed::PartitionFeeder::Piece& piece);

  std::unique_ptr<feed::PartitionFeeder> feeder_;
  bool running_ = false;
  bool closed_ = false;
  const bool pickles_;
  RowEncoder encoder_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_FEED_FEED_WRITER_H_
