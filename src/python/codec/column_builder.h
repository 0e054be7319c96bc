#ifndef TFOS_PYTHON_CODEC_COLUMN_BUILDER_H_
#define TFOS_PYTHON_CODEC_COLUMN_BUILDER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "chunk/chunk.h"
#include "python/codec/row_decoder.h"
#include "python/objects/numpy_types.h"
#include "python/objects/python_object.h"

namespace tfos::python {

/// Values of one dtype and shape as they lie in memory.
struct DenseValues {
  chunk::DType dtype = chunk::DType::kNone;
  std::span<const std::uint64_t> shape = {};  ///< Of one value.
  const std::byte* data = nullptr;
  std::size_t stride = 0;  ///< Bytes from one value to the next.
  std::size_t count = 0;
  bool python_numbers = false;  ///< In rows they are int, float or bool rather than NumPy's.
};

/// Puts one column of a batch together: a NumPy array of [rows, shape...] as long as all values are
/// of one dtype and shape, else an array of objects.
///
/// Owner and lifetime: copies what it is given; borrows `numpy`. Threads: one at a time, with the
/// GIL. Errors: throws nb::python_error; the column is then as it was.
class ColumnBuilder {
 public:
  explicit ColumnBuilder(const NumpyTypes& numpy) : numpy_(&numpy) {}

  std::size_t rows() const { return dense_ ? rows_ : objects_.size(); }

  /// `room`: how many values may still come, these included.
  void Add(const DenseValues& values, std::size_t room);
  void Add(ObjectVector&& values);

  /// Forgets all values from `rows` on.
  void Truncate(std::size_t rows);

  /// The column, of which nothing is left. One without values has the dtype and shape of the last
  /// one that had some.
  nb::object Take();

 private:
  bool Accepts(const DenseValues& values) const;
  void Start(const DenseValues& values);
  void Grow(std::size_t room, std::size_t needed, std::size_t value_bytes);
  void TurnIntoObjects();
  nb::object NewArray(std::size_t rows) const;

  const NumpyTypes* numpy_;
  bool dense_ = true;
  chunk::DType dtype_ = chunk::DType::kNone;  ///< kNone: not known yet.
  std::vector<std::uint64_t> shape_;
  bool python_numbers_ = false;
  nb::object array_;  ///< With room for `capacity_` values.
  std::size_t capacity_ = 0;
  std::size_t rows_ = 0;
  ObjectVector objects_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_CODEC_COLUMN_BUILDER_H_
