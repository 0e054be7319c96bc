#ifndef TFOS_PYTHON_CODEC_RESULT_BATCH_H_
#define TFOS_PYTHON_CODEC_RESULT_BATCH_H_

#include <cstdint>
#include <memory>

#include "base/memory/aligned_buffer.h"
#include "feed/feeder/client/feed_client.h"
#include "python/objects/python_object.h"

namespace tfos::python {

/// Some results of an inference partition, as they came.
///
/// Owner and lifetime: shares its bytes with the Arrow arrays made of it. Threads: one at a time,
/// with the GIL. Errors: throws as errors.h says.
class ResultBatch {
 public:
  /// Unless `pickles`, results that are pickles are bad input.
  ResultBatch(feed::ResultChunk chunk, bool pickles);

  std::uint64_t rows() const { return rows_; }
  /// What a result is: "value" (one column), "list", "tuple" or "mapping" of columns; "object" when
  /// the results are pickled, and so no columns.
  const char* form() const { return form_; }
  /// Every result as exactly the object that the program gave.
  nb::list Objects() const;
  /// The capsules of the Arrow PyCapsule interface: a struct array, see columns::ExportToArrow. Not
  /// for pickled ones.
  nb::tuple ArrowCapsules() const;

 private:
  std::shared_ptr<const AlignedBuffer> bytes_;
  std::uint64_t rows_;
  const char* form_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_CODEC_RESULT_BATCH_H_
