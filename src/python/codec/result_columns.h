#ifndef TFOS_PYTHON_CODEC_RESULT_COLUMNS_H_
#define TFOS_PYTHON_CODEC_RESULT_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory/aligned_buffer.h"
#include "chunk/chunk.h"
#include "chunk/row_structure.h"
#include "python/objects/numpy_types.h"
#include "python/objects/python_object.h"

namespace tfos::python {

/// Results that a program gives as whole columns, cut into chunks without making rows of them.
///
///   columns.Plan(begin, end);
///   columns.Fill(memory for columns.bytes() bytes);
///
/// Owner and lifetime: holds the arrays, which nobody may change meanwhile. Threads: one at a
/// time, with the GIL. Errors: throws as errors.h says.
class ResultColumns {
 public:
  /// `columns` are NumPy arrays of at least one dimension, and lists. A result is a dict with
  /// `names`; without any it is the value that the only column has for it.
  ///   none           a column has values that only a pickle can hold
  ///   BadInputError  the columns differ in length
  static std::optional<ResultColumns> Open(const std::optional<std::vector<std::string>>& names,
                                           nb::list columns);

  std::size_t rows() const { return rows_; }

  /// Plans a chunk of the rows [begin, end), which the columns have.
  void Plan(std::size_t begin, std::size_t end);
  /// Bytes that the planned chunk needs.
  std::uint64_t bytes() const { return builder_->bytes(); }
  /// Writes the planned chunk to the front of `out`, which holds at least `bytes()`; true.
  bool Fill(std::span<std::byte> out);

 private:
  ResultColumns() = default;

  bool AddArray(const NumpyTypes& numpy, nb::handle array);
  bool AddList(nb::handle list);

  std::size_t rows_ = 0;
  chunk::RowNode root_;
  std::string structure_;
  std::vector<chunk::ColumnView> views_;  ///< Of all values.
  std::vector<std::unique_ptr<BufferView>> arrays_;
  std::vector<std::unique_ptr<AlignedBuffer>> encoded_;
  std::optional<chunk::ChunkBuilder> builder_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_CODEC_RESULT_COLUMNS_H_
