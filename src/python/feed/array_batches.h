#ifndef TFOS_PYTHON_FEED_ARRAY_BATCHES_H_
#define TFOS_PYTHON_FEED_ARRAY_BATCHES_H_

#include <optional>

#include "python/objects/numpy_types.h"
#include "python/objects/python_object.h"
#include "tensorflow/ops/batch_source_table.h"

namespace tfos::python {

/// The batches of a source as NumPy arrays.
///
/// Owner and lifetime: takes over the caller's count of the source's context. The arrays own their
/// memory, which can be written and starts at a multiple of 64 bytes. So other libraries take them
/// over by DLPack without another copy. The feed's memory is given back at once.
/// Threads: any, with the GIL, which is released in all waits. Errors: throws as errors.h says; the
/// next call goes on where the failed one stopped, but a batch is lost if there was no memory to
/// pad or copy it. Units: rows.
class ArrayBatches {
 public:
  explicit ArrayBatches(const tfos_batch_source& source) : source_(source) {}
  ~ArrayBatches();
  ArrayBatches(const ArrayBatches&) = delete;
  ArrayBatches& operator=(const ArrayBatches&) = delete;

  /// A new pass begins.
  void Begin();

  /// Waits for the next batch: a list with the array of each tensor, strings as bytes objects; none
  /// at the end of the pass.
  std::optional<nb::list> Next();

 private:
  const tfos_batch_source source_;
  const NumpyTypes numpy_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_FEED_ARRAY_BATCHES_H_
