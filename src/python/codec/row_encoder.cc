#include "python/codec/row_encoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tfos::python {
namespace {

using chunk::ColumnEncoding;
using chunk::ColumnSpec;
using chunk::DType;
using chunk::RowFields;
using chunk::RowNodeKind;

/// The module if the program has imported it; else none. Importing it ourselves would be slow and
/// useless: without it no row can hold an object of its types.
nb::object ImportedModule(const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  return nb::borrow(PyDict_GetItemString(modules, name));
}

/// The UTF-8 of a str, or an empty view with null data when it has none (unpaired surrogates).
std::string_view Utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data == nullptr) {
    PyErr_Clear();
    return {};
  }
  return {data, static_cast<std::size_t>(size)};
}

bool IsNumberType(PyTypeObject* type) {
  return type == &PyFloat_Type || type == &PyLong_Type || type == &PyBool_Type;
}

DType NumberDType(PyTypeObject* type) {
  if (type == &PyFloat_Type) return DType::kFloat64;
  return type == &PyLong_Type ? DType::kInt64 : DType::kBool;
}

// The three Write functions store one number each and return false for any other object.

bool WriteFloat(PyObject* value, std::byte* to) {
  if (!IsExactly(value, &PyFloat_Type)) return false;
  chunk::StoreAt(to, FloatValue(value));
  return true;
}

bool WriteInt(PyObject* value, std::byte* to) {
  if (!IsExactly(value, &PyLong_Type)) return false;
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
  chunk::StoreAt(to, static_cast<std::int64_t>(number));
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

PyTypeObject* SequenceType(RowNodeKind kind) {
  return kind == RowNodeKind::kList || kind == RowNodeKind::kNumberList ? &PyList_Type
                                                                        : &PyTuple_Type;
}

std::size_t SequenceSize(PyObject* sequence, bool list) {
  return list ? ListSize(sequence) : TupleSize(sequence);
}

PyObject* SequenceItem(PyObject* sequence, bool list, std::size_t index) {
  return list ? ListItem(sequence, index) : TupleItem(sequence, index);
}

#ifdef Py_LIMITED_API
/// The items of lists and tuples are not one array under the stable ABI: collects them.
std::span<PyObject* const> SequenceItems(PyObject* sequence, bool list,
                                         std::vector<PyObject*>& scratch) {
  scratch.resize(SequenceSize(sequence, list));
  for (std::size_t i = 0; i < scratch.size(); ++i) scratch[i] = SequenceItem(sequence, list, i);
  return scratch;
}
#else
std::span<PyObject* const> SequenceItems(PyObject* sequence, bool list,
                                         std::vector<PyObject*>& /*scratch*/) {
  PyObject** items = list ? reinterpret_cast<PyListObject*>(sequence)->ob_item
                          : reinterpret_cast<PyTupleObject*>(sequence)->ob_item;
  return {items, SequenceSize(sequence, list)};
}
#endif

/// The type that all items of a sequence that has some have; null when they differ.
PyTypeObject* TypeOfAll(PyObject* sequence, bool list, std::size_t size) {
  PyTypeObject* type = Py_TYPE(SequenceItem(sequence, list, 0));
  for (std::size_t i = 1; i < size; ++i) {
    if (Py_TYPE(SequenceItem(sequence, list, i)) != type) return nullptr;
  }
  return type;
}

/// The bytes of a str or of bytes; null data when the object is neither or has no UTF-8.
std::string_view StringBytes(PyObject* value, bool text) {
  if (text) return IsExactly(value, &PyUnicode_Type) ? Utf8(value) : std::string_view();
  if (!IsExactly(value, &PyBytes_Type)) return {};
  return {PyBytes_AsString(value), static_cast<std::size_t>(PyBytes_Size(value))};
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

/// The attributes of a Spark Row are exactly its fields. Borrowed; null when it has others or none.
PyObject* FieldsOf(PyObject* row) {
  const nb::object attributes = Checked(PyObject_GetAttrString(row, "__dict__"));
  if (!IsExactly(attributes.ptr(), &PyDict_Type) || PyDict_Size(attributes.ptr()) != 1) {
    return nullptr;
  }
  return PyDict_GetItemString(attributes.ptr(), "__fields__");
}

/// How a Row keeps `fields`, given that `row_type` is pyspark.sql.Row; none when otherwise.
std::optional<RowFields> KindOfFields(PyObject* fields, PyTypeObject* row_type) {
  if (IsExactly(fields, &PyList_Type)) return RowFields::kList;
  if (!IsExactly(fields, row_type)) return std::nullopt;
  // Row("a", "b")(1, 2) keeps the first Row, which has no fields of its own.
  const nb::object attributes = Checked(PyObject_GetAttrString(fields, "__dict__"));
  return PyDict_Size(attributes.ptr()) == 0 ? std::optional(RowFields::kRow) : std::nullopt;
}

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

chunk::RowNode Describe(const EncodeNode& node) {
  chunk::RowNode description;
  description.kind = node.kind;
  description.fields = node.fields;
  for (const nb::object& key : node.keys) description.keys.emplace_back(Utf8(key.ptr()));
  for (const EncodeNode& child : node.children) description.children.push_back(Describe(child));
  return description;
}

}  // namespace

void RowEncoder::Plan(nb::list rows, std::size_t begin, std::size_t end) {
  if (!PlanIfColumnar(std::move(rows), begin, end)) pickled_.Plan(rows_, begin_, end_);
}

bool RowEncoder::PlanIfColumnar(nb::list rows, std::size_t begin, std::size_t end) {
  return PlanAtDepth(std::move(rows), begin, end, 0);
}

bool RowEncoder::PlanColumn(nb::list values, std::size_t begin, std::size_t end) {
  return PlanAtDepth(std::move(values), begin, end, 1);
}

bool RowEncoder::PlanAtDepth(nb::list rows, std::size_t begin, std::size_t end, int depth) {
  rows_ = std::move(rows);
  begin_ = begin;
  end_ = end;
  columnar_ = PlanColumnar(depth);
  return columnar_;
}

bool RowEncoder::Fill(std::span<std::byte> out) {
  if (!columnar_) {
    pickled_.Fill(out);
    return true;
  }
  bool filled = ListSize(rows_.ptr()) >= end_ && builder_->Begin(out).ok();
  if (filled && begin_ != end_) {
    std::vector<PyObject*> scratch;
    filled =
        FillNode(SequenceItems(rows_.ptr(), true, scratch).subspan(begin_, end_ - begin_), root_);
  }
  if (filled) return true;
  columnar_ = false;
  pickled_.Plan(rows_, begin_, end_);
  return false;
}

bool RowEncoder::PlanColumnar(int depth) {
  root_ = {};
  specs_.clear();
  if (begin_ != end_) {
    std::vector<PyObject*> scratch;
    const Values rows = SequenceItems(rows_.ptr(), true, scratch).subspan(begin_, end_ - begin_);
    if (!PlanNode(rows, depth, root_)) return false;
  }
  std::string structure;
  chunk::AppendRowStructure(Describe(root_), structure);
  builder_.emplace(chunk::ChunkKind::kColumnar, static_cast<std::int64_t>(end_ - begin_),
                   std::move(structure));
  for (ColumnSpec& spec : specs_) builder_->AddColumn(std::move(spec));
  // Beyond a limit of the format: pickled.
  return builder_->Plan().ok();
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
  const BufferView first(values[0], PyBUF_ND | PyBUF_WRITABLE);
  if (!first.acquired()) {
    PyErr_Clear();  // Not writable or not C-contiguous.
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
    const BufferView array(values[i], PyBUF_ND | PyBUF_WRITABLE);
    if (!array.acquired()) {
      PyErr_Clear();  // Not writable or not C-contiguous.
      return false;
    }
    const Py_buffer& view = array.view();
    const bool fits = node.ragged
                          ? view.ndim == 1
                          : std::equal(node.shape.begin(), node.shape.end(), view.shape,
                                       view.shape + view.ndim, [](std::uint64_t a, Py_ssize_t b) {
                                         return a == static_cast<std::uint64_t>(b);
                                       });
    if (!fits || array.bytes().size() > data.size() - at) return false;
    std::memcpy(data.data() + at, view.buf, array.bytes().size());
    at += array.bytes().size();
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

const NumpyTypes* RowEncoder::numpy() {
  if (!numpy_ && ImportedModule("numpy").is_valid()) numpy_.emplace();
  return numpy_ ? &*numpy_ : nullptr;
}

PyTypeObject* RowEncoder::spark_row() {
  if (!spark_row_.is_valid()) {
    const nb::object types = ImportedModule("pyspark.sql.types");
    if (types.is_valid()) spark_row_ = types.attr("Row");
  }
  return reinterpret_cast<PyTypeObject*>(spark_row_.ptr());
}

}  // namespace tfos::python
