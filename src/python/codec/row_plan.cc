// How the row encoder finds out which columns rows have.
//
// CellColumns (columns/pickle/cell_columns.h) decides the same for pickled rows. There are two:
// that one works without Python, and this one reads Python's objects where they are, without a
// copy. tests/python/feed/test_pickle_columns.py compares what both make of random rows, byte for
// byte.

#include <algorithm>
#include <utility>

#include "python/codec/row_encoder.h"
#include "python/codec/row_values.h"

namespace tfos::python {
namespace {

using chunk::ColumnEncoding;
using chunk::ColumnSpec;
using chunk::DType;
using chunk::RowFields;
using chunk::RowNodeKind;

bool IsNumberType(PyTypeObject* type) {
  return type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type;
}

DType NumberDType(PyTypeObject* type) {
  if (type == &PyFloat_Type) return DType::kFloat64;
  return type == &PyLong_Type ? DType::kInt64 : DType::kBool;
}

/// The type that all items of a sequence that has some have; null when they differ.
PyTypeObject* TypeOfAll(PyObject* sequence, bool list, std::size_t size) {
  PyTypeObject* type = Py_TYPE(SequenceItem(sequence, list, 0));
  for (std::size_t i = 1; i < size; ++i) {
    if (Py_TYPE(SequenceItem(sequence, list, i)) != type) return nullptr;
  }
  return type;
}

/// How many bytes the strings have together; none when one is none.
std::optional<std::uint64_t> BytesOfAll(std::span<PyObject* const> strings, bool text) {
  std::uint64_t bytes = 0;
  for (PyObject* string : strings) {
    const std::string_view of = StringBytes(string, text);
    if (of.data() == nullptr) return std::nullopt;
    bytes += of.size();
  }
  return bytes;
}

bool AllTextWithUtf8(const std::vector<nb::object>& keys) {
  return std::all_of(keys.begin(), keys.end(), [](const nb::object& key) {
    return IsExactly(key.ptr(), &PyUnicode_Type) && Utf8(key.ptr()).data() != nullptr;
  });
}

chunk::RowNode Describe(const EncodeNode& node) {
  chunk::RowNode description;
  description.kind = node.kind;
  description.fields = node.fields;
  for (const nb::object& key : node.keys) description.keys.emplace_back(Utf8(key.ptr()));
  for (const EncodeNode& child : node.children) description.children.push_back(Describe(child));
  return description;
}

}  // namespace

bool RowEncoder::PlanColumnar(int depth) {
  root_ = {};
  specs_.clear();
  if (begin_ != end_) {
    std::vector<PyObject*> scratch;
    const Values rows = SequenceItems(rows_.ptr(), true, scratch).subspan(begin_, end_ - begin_);
    if (!PlanNode(rows, depth, root_)) return false;
  }
  const chunk::RowNode description = Describe(root_);
  std::string structure;
  chunk::AppendRowStructure(description, structure);
  builder_.emplace(chunk::ChunkKind::kColumnar, static_cast<std::int64_t>(end_ - begin_),
                   std::move(structure));
  for (ColumnSpec& spec : specs_) builder_->AddColumn(std::move(spec));
  // Beyond a limit of the format: pickled.
  return builder_->Plan().ok() &&
         chunk::CanAllBeObjects(description, end_ - begin_, builder_->bytes());
}

bool RowEncoder::PlanNode(Values values, int depth, EncodeNode& node) {
  if (depth >= chunk::kMaxRowDepth) return false;
  PyObject* first = values[0];
  PyTypeObject* type = Py_TYPE(first);
  if (first == Py_None) {
    node.kind = RowNodeKind::kNone;
    return true;
  }
  if (IsNumberType(type)) {
    node.dtype = NumberDType(type);
    node.kind = type == &PyFloat_Type  ? RowNodeKind::kFloat
                : type == &PyLong_Type ? RowNodeKind::kInt
                                       : RowNodeKind::kBool;
    AddColumn({.dtype = node.dtype, .shape = {}, .values = values.size(), .name = {}}, node);
    return true;
  }
  if (type == &PyUnicode_Type || type == &PyBytes_Type) {
    node.text = type == &PyUnicode_Type;
    node.kind = node.text ? RowNodeKind::kText : RowNodeKind::kBytes;
    return PlanStrings(values, node);
  }
  if (type == &PyList_Type || type == &PyTuple_Type) {
    node.kind = type == &PyList_Type ? RowNodeKind::kList : RowNodeKind::kTuple;
    return PlanSequence(values, depth, node);
  }
  if (type == &PyDict_Type) return PlanDict(values, depth, node);
  if (type == spark_row()) return PlanSparkRow(values, depth, node);
  return PlanNumpy(values, node);
}

void RowEncoder::AddColumn(ColumnSpec spec, EncodeNode& node) {
  node.column = specs_.size();
  specs_.push_back(std::move(spec));
}

bool RowEncoder::PlanStrings(Values values, EncodeNode& node) {
  const std::optional<std::uint64_t> bytes = BytesOfAll(values, node.text);
  if (!bytes) return false;
  AddColumn({.encoding = node.text ? ColumnEncoding::kText : ColumnEncoding::kBytes,
             .shape = {},
             .values = values.size(),
             .data_bytes = *bytes,
             .name = {}},
            node);
  return true;
}

bool RowEncoder::PlanStringLists(Values values, EncodeNode& node) {
  ColumnSpec spec{.shape = {}, .values = values.size(), .name = {}};
  std::vector<PyObject*> scratch;
  for (PyObject* value : values) {
    const Values strings = SequenceItems(value, true, scratch);
    const std::optional<std::uint64_t> bytes = BytesOfAll(strings, node.text);
    if (!bytes) return false;
    spec.strings += strings.size();
    spec.data_bytes += *bytes;
  }
  if (node.ragged) {
    spec.encoding = node.text ? ColumnEncoding::kRaggedText : ColumnEncoding::kRaggedBytes;
  } else {
    spec.encoding = node.text ? ColumnEncoding::kText : ColumnEncoding::kBytes;
    spec.shape = {node.length};
  }
  AddColumn(std::move(spec), node);
  return true;
}

bool RowEncoder::PlanSequence(Values values, int depth, EncodeNode& node) {
  const bool list = node.kind == RowNodeKind::kList;
  PyTypeObject* type = SequenceType(node.kind);
  PyObject* sample = nullptr;  // The first that isn't empty.
  std::size_t elements = 0;
  const std::size_t length = SequenceSize(values[0], list);
  bool same_length = true;
  for (PyObject* value : values) {
    if (!IsExactly(value, type)) return false;
    const std::size_t size = SequenceSize(value, list);
    if (size != 0 && sample == nullptr) sample = value;
    elements += size;
    same_length = same_length && size == length;
  }
  PyTypeObject* const item =
      sample == nullptr ? nullptr : TypeOfAll(sample, list, SequenceSize(sample, list));
  node.ragged = !same_length;
  node.length = length;
  // A row that is itself a list of strings has a column for each: that is how CSV files are read.
  if (list && depth != 0 && (item == &PyUnicode_Type || item == &PyBytes_Type)) {
    node.kind = RowNodeKind::kStringList;
    node.text = item == &PyUnicode_Type;
    return PlanStringLists(values, node);
  }
  if (item != nullptr && IsNumberType(item)) {
    node.kind = list ? RowNodeKind::kNumberList : RowNodeKind::kNumberTuple;
    node.dtype = NumberDType(item);
    ColumnSpec spec{.dtype = node.dtype, .shape = {}, .values = values.size(), .name = {}};
    if (same_length) {
      spec.shape = {length};
    } else {
      spec.encoding = ColumnEncoding::kRagged;
      spec.data_bytes = elements * chunk::DTypeBytes(node.dtype);
    }
    AddColumn(std::move(spec), node);
    return true;
  }
  return same_length && PlanChildren(values, length, depth, node);
}

bool RowEncoder::PlanDict(Values values, int depth, EncodeNode& node) {
  node.kind = RowNodeKind::kDict;
  Py_ssize_t position = 0;
  PyObject* key = nullptr;
  while (PyDict_Next(values[0], &position, &key, nullptr) != 0) {
    node.keys.push_back(nb::borrow(key));
  }
  return AllTextWithUtf8(node.keys) && PlanChildren(values, node.keys.size(), depth, node);
}

bool RowEncoder::PlanSparkRow(Values values, int depth, EncodeNode& node) {
  node.kind = RowNodeKind::kSparkRow;
  PyObject* fields = FieldsOf(values[0]);
  if (fields == nullptr) return false;
  const std::optional<RowFields> kind = KindOfFields(fields, spark_row());
  if (!kind) return false;
  node.fields = *kind;
  const bool list = node.fields == RowFields::kList;
  for (std::size_t i = 0; i < SequenceSize(fields, list); ++i) {
    node.keys.push_back(nb::borrow(SequenceItem(fields, list, i)));
  }
  return AllTextWithUtf8(node.keys) && PlanChildren(values, node.keys.size(), depth, node);
}

bool RowEncoder::PlanChildren(Values values, std::size_t children, int depth, EncodeNode& node) {
  if (children > chunk::kMaxChunkColumns) return false;
  Columns columns(children, std::vector<PyObject*>(values.size()));
  node.children.resize(children);
  if (!Gather(values, node, columns)) return false;
  for (std::size_t i = 0; i < children; ++i) {
    if (specs_.size() > chunk::kMaxChunkColumns) return false;
    if (!PlanNode(columns[i], depth + 1, node.children[i])) return false;
  }
  return true;
}

bool RowEncoder::PlanNumpy(Values values, EncodeNode& node) {
  if (numpy() == nullptr) return false;
  PyTypeObject* type = Py_TYPE(values[0]);
  if (type == numpy()->array_type()) return PlanArrays(values, node);
  node.kind = RowNodeKind::kNumpyScalar;
  const std::optional<DType> known = numpy()->FromScalarType(type);
  if (!known) return false;
  node.dtype = *known;
  AddColumn({.dtype = node.dtype, .shape = {}, .values = values.size(), .name = {}}, node);
  return true;
}

bool RowEncoder::PlanArrays(Values values, EncodeNode& node) {
  const nb::object dtype = Checked(PyObject_GetAttrString(values[0], "dtype"));
  const std::optional<DType> known = numpy()->FromDType(dtype);
  if (!known) return false;
  node.dtype = *known;
  const BufferView first(values[0], exact_arrays_ ? PyBUF_ND | PyBUF_WRITABLE : PyBUF_STRIDES);
  if (!first.acquired()) {
    PyErr_Clear();  // Not writable or not C-contiguous, so it would not come back exactly.
    return false;
  }
  node.kind = RowNodeKind::kNumpyArray;
  node.shape.assign(first.view().shape, first.view().shape + first.view().ndim);
  ColumnSpec spec{.dtype = node.dtype, .shape = node.shape, .values = values.size(), .name = {}};
  if (node.shape.size() == 1) {
    std::uint64_t elements = 0;
    for (PyObject* value : values) {
      if (!IsExactly(value, numpy()->array_type())) return false;
      const Py_ssize_t length = PyObject_Size(value);
      if (length < 0) {
        PyErr_Clear();  // An array without dimensions has no length.
        return false;
      }
      elements += static_cast<std::uint64_t>(length);
      node.ragged = node.ragged || static_cast<std::uint64_t>(length) != node.shape[0];
    }
    if (node.ragged) {
      node.kind = RowNodeKind::kNumpyRagged;
      spec.encoding = ColumnEncoding::kRagged;
      spec.shape.clear();
      spec.data_bytes = elements * chunk::DTypeBytes(node.dtype);
    }
  }
  AddColumn(std::move(spec), node);
  return true;
}

}  // namespace tfos::python
