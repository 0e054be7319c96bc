#ifndef TFOS_DATASETS_BATCH_SOURCE_H_
#define TFOS_DATASETS_BATCH_SOURCE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/thread/mutex.h"
#include "feed/read/batch_reader.h"
#include "feed/read/steps/synchronous_batches.h"
#include "node/node_feed.h"
#include "tensorflow/ops/batch_source_table.h"

namespace tfos::datasets {

/// The batches of one queue of a node's feed, for the ops of src/tensorflow and for NumPy.
///
/// Owner and lifetime: shares the feed; what the op uses stays until its call returns, Close or
/// not. Threads: any. Errors: Status; nothing here throws but std::bad_alloc.
class BatchSource {
 public:
  BatchSource(std::shared_ptr<node::NodeFeed> feed, const std::string& queue);
  ~BatchSource() { Close(); }
  BatchSource(const BatchSource&) = delete;
  BatchSource& operator=(const BatchSource&) = delete;

  feed::BatchReader& reader();
  void CountBatch(std::uint64_t rows);
  /// Whether what ended the last pass was the feed, rather than the end of an epoch: the driver may
  /// have had more rows for it.
  bool cut_short() const;
  /// As SynchronousBatches has it.
  Status TellEpoch(const Wait& turn);

  /// A dataset of these batches; the caller releases its context. With kPad each batch has one
  /// tensor more, the last: float32[rows], 1 for a row that was fed, else 0.
  ///   kBadInput     closed
  Result<tfos_batch_source> Open(feed::BatchOptions options, feed::Remainder remainder);

  /// The same, registered with the ops library: its handle.
  ///   kUnsupported  the library is of another version
  ///   kBadInput     closed
  Result<std::int64_t> Register(feed::BatchOptions options, feed::Remainder remainder,
                                tfos_register_function add, tfos_unregister_function remove);

  /// Ends all datasets: to them the feed is over. Calls of the op that wait return soon.
  /// Idempotent.
  void Close();

 private:
  struct Reading;
  struct Stream;

  static void Begin(void* context);
  static std::int32_t Await(void* context);
  static void NextBatch(void* context, tfos_batch* batch);

  const std::shared_ptr<Reading> reading_;
  Mutex mutex_;
  std::vector<std::int64_t> handles_ TFOS_GUARDED_BY(mutex_);
  tfos_unregister_function remove_ TFOS_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace tfos::datasets

#endif  // TFOS_DATASETS_BATCH_SOURCE_H_
