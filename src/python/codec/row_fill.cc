// How the row encoder writes rows to the columns that were planned for them.

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "python/codec/row_encoder.h"
#include "python/codec/row_values.h"

namespace tfos::python {
namespace {

using chunk::DType;
using chunk::RowFields;
using chunk::RowNodeKind;

// The three Write functions store one number each and return false for any other object.

bool WriteFloat(PyObject* value, std::byte* to) {
  if (!IsExactly(value, &PyFloat_Type)) return false;
  Store(FloatValue(value), to);
  return true;
}

bool WriteInt(PyObject* value, std::byte* to) {
  if (!IsExactly(value, &PyLong_Type)) return false;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  Store(static_cast<std::int64_t>(number), to);
  return overflow == 0;
}

bool WriteBool(PyObject* value, std::byte* to) {
  if (!IsExactly(value, &PyBool_Type)) return false;
  *to = static_cast<std::byte>(value == Py_True);
  return true;
}

template <bool (*kWrite)(PyObject*, std::byte*), std::size_t kBytes>
std::byte* WriteAll(std::span<PyObject* const> values, std::byte* to) {
  for (PyObject* value : values) {
    if (!kWrite(value, to)) return nullptr;
    to += kBytes;
  }
  return to;
}

/// Writes numbers of `dtype` one after the other. Null when one is of another type.
std::byte* WriteNumbers(std::span<PyObject* const> values, DType dtype, std::byte* to) {
  switch (dtype) {
    case DType::kFloat64:
      return WriteAll<WriteFloat, 8>(values, to);
    case DType::kInt64:
      return WriteAll<WriteInt, 8>(values, to);
    default:
      return WriteAll<WriteBool, 1>(values, to);
  }
}

/// Writes the strings of a column one after the other, as many as were planned.
class StringWriter {
 public:
  StringWriter(chunk::ChunkBuilder& builder, std::size_t column)
      : builder_(builder), column_(column), room_(builder.data(column)) {}

  /// False when one isn't a string, or more than were planned.
  bool Write(std::span<PyObject* const> strings, bool text) {
    if (strings.size() > builder_.strings(column_) - written_) return false;
    for (PyObject* string : strings) {
      const std::string_view bytes = StringBytes(string, text);
      if (bytes.data() == nullptr || bytes.size() > room_.size() - at_) return false;
      std::memcpy(room_.data() + at_, bytes.data(), bytes.size());
      at_ += bytes.size();
      builder_.SetStringBoundary(column_, ++written_, at_);
    }
    return true;
  }
  std::uint64_t written() const { return written_; }
  /// All that was planned is there.
  bool full() const { return written_ == builder_.strings(column_) && at_ == room_.size(); }

 private:
  chunk::ChunkBuilder& builder_;
  const std::size_t column_;
  const std::span<std::byte> room_;
  std::uint64_t written_ = 0;
  std::size_t at_ = 0;
};

bool SameText(PyObject* a, PyObject* b) {
  return a == b || (IsExactly(a, &PyUnicode_Type) && PyUnicode_Compare(a, b) == 0);
}

bool GatherSequence(std::span<PyObject* const> values, const EncodeNode& node,
                    std::vector<std::vector<PyObject*>>& columns) {
  const bool list = node.kind == RowNodeKind::kList;
  PyTypeObject* type = SequenceType(node.kind);
  for (std::size_t row = 0; row < values.size(); ++row) {
    if (!IsExactly(values[row], type) || SequenceSize(values[row], list) != columns.size()) {
      return false;
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      columns[i][row] = SequenceItem(values[row], list, i);
    }
  }
  return true;
}

bool GatherDict(std::span<PyObject* const> values, const EncodeNode& node,
                std::vector<std::vector<PyObject*>>& columns) {
  for (std::size_t row = 0; row < values.size(); ++row) {
    if (!IsExactly(values[row], &PyDict_Type) ||
        static_cast<std::size_t>(PyDict_Size(values[row])) != columns.size()) {
      return false;
    }
    Py_ssize_t position = 0;
    PyObject* key = nullptr;
    PyObject* value = nullptr;
    for (std::size_t i = 0; PyDict_Next(values[row], &position, &key, &value) != 0; ++i) {
      if (!SameText(key, node.keys[i].ptr())) return false;
      columns[i][row] = value;
    }
  }
  return true;
}

bool GatherSparkRow(std::span<PyObject* const> values, const EncodeNode& node,
                    PyTypeObject* row_type, std::vector<std::vector<PyObject*>>& columns) {
  PyObject* known_fields = nullptr;  // The rows of one pickle share their fields.
  for (std::size_t row = 0; row < values.size(); ++row) {
    if (!IsExactly(values[row], row_type) || TupleSize(values[row]) != columns.size()) {
      return false;
    }
    PyObject* fields = FieldsOf(values[row]);
    if (fields == nullptr) return false;
    if (fields != known_fields) {
      const bool list = node.fields == RowFields::kList;
      if (KindOfFields(fields, row_type) != node.fields ||
          SequenceSize(fields, list) != columns.size()) {
        return false;
      }
      for (std::size_t i = 0; i < columns.size(); ++i) {
        if (!SameText(SequenceItem(fields, list, i), node.keys[i].ptr())) return false;
      }
      known_fields = fields;
    }
    for (std::size_t i = 0; i < columns.size(); ++i) columns[i][row] = TupleItem(values[row], i);
  }
  return true;
}

}  // namespace

bool RowEncoder::FillNode(Values values, const EncodeNode& node) {
  switch (node.kind) {
    case RowNodeKind::kNone:
      return std::all_of(values.begin(), values.end(),
                         [](PyObject* value) { return value == Py_None; });
    case RowNodeKind::kBool:
    case RowNodeKind::kInt:
    case RowNodeKind::kFloat:
      return WriteNumbers(values, node.dtype, builder_->data(node.column).data()) != nullptr;
    case RowNodeKind::kText:
    case RowNodeKind::kBytes:
      return FillStrings(values, node);
    case RowNodeKind::kStringList:
      return FillStringLists(values, node);
    case RowNodeKind::kNumpyScalar:
      return FillNumpyScalars(values, node);
    case RowNodeKind::kNumpyArray:
    case RowNodeKind::kNumpyRagged:
      return FillArrays(values, node);
    case RowNodeKind::kNumberList:
    case RowNodeKind::kNumberTuple:
      return FillNumbers(values, node);
    case RowNodeKind::kList:
    case RowNodeKind::kTuple:
    case RowNodeKind::kDict:
    case RowNodeKind::kSparkRow:
      return FillChildren(values, node);
  }
  return false;
}

bool RowEncoder::FillChildren(Values values, const EncodeNode& node) {
  Columns columns(node.children.size(), std::vector<PyObject*>(values.size()));
  if (!Gather(values, node, columns)) return false;
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    if (!FillNode(columns[i], node.children[i])) return false;
  }
  return true;
}

bool RowEncoder::FillStrings(Values values, const EncodeNode& node) {
  StringWriter writer(*builder_, node.column);
  return writer.Write(values, node.text) && writer.full();
}

bool RowEncoder::FillStringLists(Values values, const EncodeNode& node) {
  StringWriter writer(*builder_, node.column);
  std::vector<PyObject*> scratch;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!IsExactly(values[i], &PyList_Type)) return false;
    const Values strings = SequenceItems(values[i], true, scratch);
    if (!node.ragged && strings.size() != node.length) return false;
    if (!writer.Write(strings, node.text)) return false;
    if (node.ragged) builder_->SetBoundary(node.column, i + 1, writer.written());
  }
  return writer.full();
}

bool RowEncoder::FillNumbers(Values values, const EncodeNode& node) {
  const std::span<std::byte> data = builder_->data(node.column);
  const std::size_t element = chunk::DTypeBytes(node.dtype);
  const bool list = node.kind == RowNodeKind::kNumberList;
  PyTypeObject* type = SequenceType(node.kind);
  std::vector<PyObject*> scratch;
  std::size_t at = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!IsExactly(values[i], type)) return false;
    const Values numbers = SequenceItems(values[i], list, scratch);
    if (!node.ragged && numbers.size() != node.length) return false;
    if (numbers.size() > (data.size() - at) / element) return false;
    if (WriteNumbers(numbers, node.dtype, data.data() + at) == nullptr) return false;
    at += numbers.size() * element;
    if (node.ragged) builder_->SetBoundary(node.column, i + 1, at / element);
  }
  return at == data.size();
}

bool RowEncoder::FillArrays(Values values, const EncodeNode& node) {
  const std::span<std::byte> data = builder_->data(node.column);
  const std::size_t element = chunk::DTypeBytes(node.dtype);
  nb::object known_dtype;  // The arrays of one pickle share their dtype.
  const nb::object dtype_name = Checked(PyUnicode_InternFromString("dtype"));
  std::size_t at = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!IsExactly(values[i], numpy()->array_type())) return false;
    nb::object dtype = Checked(PyObject_GetAttr(values[i], dtype_name.ptr()));
    if (!dtype.is(known_dtype)) {
      if (numpy()->FromDType(dtype) != node.dtype) return false;
      known_dtype = std::move(dtype);
    }
    std::optional<BufferView> array(std::in_place, values[i],
                                    exact_arrays_ ? PyBUF_ND | PyBUF_WRITABLE : PyBUF_ND);
    if (!array->acquired()) {
      PyErr_Clear();  // Not writable or not C-contiguous.
      if (exact_arrays_) return false;
      array.emplace(nb::module_::import_("numpy").attr("ascontiguousarray")(nb::handle(values[i])),
                    PyBUF_ND);
      if (!array->acquired()) throw nb::python_error();
    }
    const Py_buffer& view = array->view();
    const bool fits = node.ragged
                          ? view.ndim == 1
                          : std::equal(node.shape.begin(), node.shape.end(), view.shape,
                                       view.shape + view.ndim, [](std::uint64_t a, Py_ssize_t b) {
                                         return a == static_cast<std::uint64_t>(b);
                                       });
    if (!fits || array->bytes().size() > data.size() - at) return false;
    std::memcpy(data.data() + at, view.buf, array->bytes().size());
    at += array->bytes().size();
    if (node.ragged) builder_->SetBoundary(node.column, i + 1, at / element);
  }
  return at == data.size();
}

bool RowEncoder::FillNumpyScalars(Values values, const EncodeNode& node) {
  std::byte* to = builder_->data(node.column).data();
  const std::size_t value_bytes = chunk::DTypeBytes(node.dtype);
  PyTypeObject* type = Py_TYPE(values[0]);
  if (numpy()->FromScalarType(type) != node.dtype) return false;
  for (PyObject* value : values) {
    if (!IsExactly(value, type)) return false;
    const BufferView scalar(value, PyBUF_SIMPLE);
    if (!scalar.acquired()) throw nb::python_error();
    if (scalar.bytes().size() != value_bytes) return false;
    std::memcpy(to, scalar.bytes().data(), value_bytes);
    to += value_bytes;
  }
  return true;
}

bool RowEncoder::Gather(Values values, const EncodeNode& node, Columns& columns) {
  switch (node.kind) {
    case RowNodeKind::kDict:
      return GatherDict(values, node, columns);
    case RowNodeKind::kSparkRow:
      return GatherSparkRow(values, node, spark_row(), columns);
    default:
      return GatherSequence(values, node, columns);
  }
}

}  // namespace tfos::python
