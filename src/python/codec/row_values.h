#ifndef TFOS_PYTHON_CODEC_ROW_VALUES_H_
#define TFOS_PYTHON_CODEC_ROW_VALUES_H_

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "chunk/row_structure.h"
#include "python/objects/python_object.h"

// How the row encoder looks at Python's objects, for its planning and for its filling. In a header,
// as these are in the loops over all values. Threads: with the GIL. Errors: none, but where said.

namespace tfos::python {

/// The UTF-8 of a str, or an empty view with null data when it has none (unpaired surrogates).
inline std::string_view Utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {data, static_cast<std::size_t>(size)};
}

/// The type of a row, or of a field, that is such a list or tuple.
inline PyTypeObject* SequenceType(chunk::RowNodeKind kind) {
  return kind == chunk::RowNodeKind::kList || kind == chunk::RowNodeKind::kNumberList
             ? &PyList_Type
             : &PyTuple_Type;
}

/// How many items a list, or else a tuple, has.
inline std::size_t SequenceSize(PyObject* sequence, bool list) {
  return list ? ListSize(sequence) : TupleSize(sequence);
}

/// One of them, borrowed.
inline PyObject* SequenceItem(PyObject* sequence, bool list, std::size_t index) {
  return list ? ListItem(sequence, index) : TupleItem(sequence, index);
}

#ifdef Py_LIMITED_API
/// The items of lists and tuples are not one array under the stable ABI: collects them.
inline std::span<PyObject* const> SequenceItems(PyObject* sequence, bool list,
                                                std::vector<PyObject*>& scratch) {
  scratch.resize(SequenceSize(sequence, list));
  for (std::size_t i = 0; i < scratch.size(); ++i) scratch[i] = SequenceItem(sequence, list, i);
  return scratch;
}
#else
inline std::span<PyObject* const> SequenceItems(PyObject* sequence, bool list,
                                                std::vector<PyObject*>& /*scratch*/) {
  PyObject** items = list ? reinterpret_cast<PyListObject*>(sequence)->ob_item
                          : reinterpret_cast<PyTupleObject*>(sequence)->ob_item;
  return {items, SequenceSize(sequence, list)};
}
#endif

/// The bytes of a str or of bytes; null data when the object is neither or has no UTF-8.
inline std::string_view StringBytes(PyObject* value, bool text) {
  if (text) return IsExactly(value, &PyUnicode_Type) ? Utf8(value) : std::string_view();
  if (!IsExactly(value, &PyBytes_Type)) return {};
  return {PyBytes_AsString(value), static_cast<std::size_t>(PyBytes_Size(value))};
}

/// The attributes of a Spark Row are exactly its fields. Borrowed; null when it has others or none.
inline PyObject* FieldsOf(PyObject* row) {
  const nb::object attributes = Checked(PyObject_GetAttrString(row, "__dict__"));
  if (!IsExactly(attributes.ptr(), &PyDict_Type) || PyDict_Size(attributes.ptr()) != 1) {
    return nullptr;
  }
  return PyDict_GetItemString(attributes.ptr(), "__fields__");
}

/// How a Row keeps `fields`, given that `row_type` is pyspark.sql.Row; none when otherwise.
inline std::optional<chunk::RowFields> KindOfFields(PyObject* fields, PyTypeObject* row_type) {
  if (IsExactly(fields, &PyList_Type)) return chunk::RowFields::kList;
  if (!IsExactly(fields, row_type)) return std::nullopt;
  // Row("a", "b")(1, 2) keeps the first Row, which has no fields of its own.
  const nb::object attributes = Checked(PyObject_GetAttrString(fields, "__dict__"));
  return PyDict_Size(attributes.ptr()) == 0 ? std::optional(chunk::RowFields::kRow) : std::nullopt;
}

}  // namespace tfos::python

#endif  // TFOS_PYTHON_CODEC_ROW_VALUES_H_
