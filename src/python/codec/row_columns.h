#ifndef TFOS_PYTHON_CODEC_ROW_COLUMNS_H_
#define TFOS_PYTHON_CODEC_ROW_COLUMNS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "python/codec/column_builder.h"
#include "python/codec/row_decoder.h"
#include "python/codec/row_encoder.h"
#include "python/objects/numpy_types.h"
#include "python/objects/python_object.h"

namespace tfos::python {

/// A batch of some fields of rows as NumPy columns, in the making.
///
/// A field is found by its name where rows have names (Rows and dicts), else by its position: field
/// i of a row is name i. Numbers, NumPy scalars, lists or tuples of numbers of one type and arrays
/// of one dtype and shape make a dense array. Text, bytes, arrays or lists of different lengths
/// (each an array) and everything else make one of objects.
///
/// Owner and lifetime: copies what it is given. Threads: one at a time, with the GIL.
/// Errors: throws nb::python_error and BadInputError; the batch is then as it was.
class RowColumns {
 public:
  explicit RowColumns(std::vector<std::string> names);
  RowColumns(const RowColumns&) = delete;
  RowColumns& operator=(const RowColumns&) = delete;

  const std::vector<std::string>& names() const { return names_; }
  std::size_t rows() const { return rows_; }

  /// Takes up to `room` rows from a columnar chunk and returns how many. `room` is how many may
  /// still come into this batch.
  std::size_t AddFrom(RowDecoder& chunk, std::size_t room);

  /// Copies rows that are Python objects.
  void AddRows(std::span<PyObject* const> rows, std::size_t room);

  /// The columns in the order of the names; nothing is left.
  nb::list Take();

 private:
  /// Where a column is in a chunk.
  struct Source {
    const DecodeNode* node = nullptr;
    std::optional<std::size_t> element;  ///< Of the node's values, if it is only that.
  };

  std::vector<Source> SourcesIn(const DecodeNode& root) const;
  void AddColumn(RowDecoder& chunk, const Source& source, std::size_t count, std::size_t room,
                 ColumnBuilder& column);
  void AddValues(ObjectVector values, std::size_t room, ColumnBuilder& column);
  nb::object FieldOf(PyObject* row, std::size_t index);
  [[noreturn]] void ThrowTooShort(std::size_t fields) const;
  /// Runs `add`, which adds `count` rows to every column, and undoes what it did when it fails.
  template <typename Add>
  void AddWhole(std::size_t count, Add add);

  const std::vector<std::string> names_;
  std::vector<nb::object> keys_;  ///< The names as str.
  NumpyTypes numpy_;
  std::vector<ColumnBuilder> columns_;
  std::size_t rows_ = 0;
  RowEncoder encoder_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_CODEC_ROW_COLUMNS_H_
