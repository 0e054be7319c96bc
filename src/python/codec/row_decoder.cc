#include "python/codec/row_decoder.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <tuple>

#include "base/format.h"
#include "chunk/pickle_leave.h"
#include "python/objects/errors.h"

namespace tfos::python {
namespace {

using chunk::ColumnEncoding;
using chunk::ColumnView;
using chunk::DType;
using chunk::RowFields;
using chunk::RowNode;
using chunk::RowNodeKind;

PyObject* NewReference(PyObject* object) {
  Py_INCREF(object);
  return object;
}

PyObject* NewOrThrow(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return object;
}

// The three Read functions make one number each; null when memory is short.

PyObject* ReadFloat(const std::byte* from) { return PyFloat_FromDouble(Load<double>(from)); }
PyObject* ReadInt(const std::byte* from) { return PyLong_FromLongLong(Load<std::int64_t>(from)); }
PyObject* ReadBool(const std::byte* from) {
  return NewReference(*from == std::byte{0} ? Py_False : Py_True);
}

/// Calls `visit` with the Read function of `dtype`, so that loops are compiled for each.
template <typename Visit>
void VisitNumbers(DType dtype, Visit visit) {
  switch (dtype) {
    case DType::kFloat64:
      return visit([](const std::byte* from) { return ReadFloat(from); });
    case DType::kInt64:
      return visit([](const std::byte* from) { return ReadInt(from); });
    default:
      return visit([](const std::byte* from) { return ReadBool(from); });
  }
}

nb::object TextObject(std::string_view text) {
  return Checked(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr));
}

/// String `index` of a column as str or bytes.
PyObject* StringObject(const ColumnView& column, std::uint64_t index) {
  const std::span<const std::byte> bytes = column.BytesOf({index, index + 1});
  const auto* data = reinterpret_cast<const char*>(bytes.data());
  const auto size = static_cast<Py_ssize_t>(bytes.size());
  return NewOrThrow(chunk::HoldsText(column.encoding) ? PyUnicode_DecodeUTF8(data, size, nullptr)
                                                      : PyBytes_FromStringAndSize(data, size));
}

/// Some strings of a column as a list, or as lists of lists where `shape` has more dimensions.
nb::object StringListObject(const ColumnView& column, chunk::ElementRange strings,
                            std::span<const std::uint64_t> shape) {
  const std::uint64_t length = shape.empty() ? strings.size() : shape[0];
  nb::object list = Checked(PyList_New(static_cast<Py_ssize_t>(length)));
  const std::uint64_t each = length == 0 ? 0 : strings.size() / length;
  for (std::uint64_t i = 0; i < length; ++i) {
    const std::uint64_t begin = strings.begin + i * each;
    PyObject* const item =
        shape.size() > 1
            ? StringListObject(column, {begin, begin + each}, shape.subspan(1)).release().ptr()
            : StringObject(column, begin);
    SetListItem(list.ptr(), i, item);
  }
  return list;
}

/// A memoryview of pickled bytes, so that unpickling needs no copy of them.
nb::object ViewOf(std::span<const std::byte> bytes) {
  return Checked(
      PyMemoryView_FromMemory(reinterpret_cast<char*>(const_cast<std::byte*>(bytes.data())),
                              static_cast<Py_ssize_t>(bytes.size()), PyBUF_READ));
}

chunk::ChunkView ParseOrThrow(std::span<const std::byte> chunk) {
  return ValueOrThrow(chunk::ChunkView::Parse(chunk));
}

}  // namespace

ObjectVector::~ObjectVector() {
  for (PyObject* object : objects_) Py_XDECREF(object);
}

void ObjectVector::Append(ObjectVector&& other) {
  objects_.insert(objects_.end(), other.objects_.begin(), other.objects_.end());
  other.objects_.clear();
}

nb::list ObjectVector::TakeFront(std::size_t count) {
  const nb::object list = Checked(PyList_New(static_cast<Py_ssize_t>(count)));
  for (std::size_t i = 0; i < count; ++i) SetListItem(list.ptr(), i, Take(i));
  objects_.erase(objects_.begin(), objects_.begin() + static_cast<std::ptrdiff_t>(count));
  return nb::borrow<nb::list>(list);
}

void ObjectVector::DropFront(std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) Py_XDECREF(Take(i));
  objects_.erase(objects_.begin(), objects_.begin() + static_cast<std::ptrdiff_t>(count));
}

void ObjectVector::Truncate(std::size_t size) {
  while (objects_.size() > size) {
    Py_XDECREF(std::exchange(objects_.back(), nullptr));
    objects_.pop_back();
  }
}

RowDecoder::RowDecoder(std::span<const std::byte> chunk, bool pickles)
    : chunk_(ParseOrThrow(chunk)) {
  ThrowIfError(chunk::CheckLeave(chunk_, pickles));
  if (chunk_.kind() != chunk::ChunkKind::kColumnar) return;
  const RowNode structure = ValueOrThrow(chunk::ParseRowStructure(chunk_));
  can_all_be_objects_ = chunk::CanAllBeObjects(structure, rows_left(), chunk_.bytes());
  root_ = Prepare(structure);
}

DecodeNode RowDecoder::Prepare(const RowNode& node) {
  DecodeNode prepared;
  prepared.kind = node.kind;
  if (chunk::TakesColumn(node.kind)) prepared.column = &chunk_.columns()[node.column];
  for (const std::string& key : node.keys) prepared.keys.push_back(TextObject(key));
  if (node.kind == RowNodeKind::kNumpyArray) {
    nb::list shape;
    for (std::uint64_t dimension : prepared.column->shape) shape.append(dimension);
    prepared.shape = nb::tuple(shape);
  }
  if (node.kind == RowNodeKind::kSparkRow) {
    if (!spark_row_.is_valid()) {
      spark_row_ = nb::module_::import_("pyspark.sql.types").attr("Row");
    }
    nb::list fields;
    for (const nb::object& key : prepared.keys) fields.append(key);
    prepared.fields =
        node.fields == RowFields::kList ? nb::object(fields) : spark_row_(*nb::tuple(fields));
  }
  for (const RowNode& child : node.children) prepared.children.push_back(Prepare(child));
  return prepared;
}

bool RowDecoder::at_end() {
  if (!columnar()) return !UnpickleNext();
  return next_ == static_cast<std::size_t>(chunk_.rows());
}

std::size_t RowDecoder::Take(std::size_t count, ObjectVector& rows) {
  const GarbageCollectionPause pause;
  if (!columnar()) return TakePickled(count, rows);
  count = std::min(count, static_cast<std::size_t>(chunk_.rows()) - next_);
  ObjectVector decoded(count);  // Of its own, so that a failure leaves no gaps in `rows`.
  Decode(root_, next_, count, decoded.data());
  rows.Append(std::move(decoded));
  next_ += count;
  return count;
}

ObjectVector RowDecoder::Values(const DecodeNode& node, std::size_t first, std::size_t count) {
  const GarbageCollectionPause pause;
  ObjectVector values(count);
  Decode(node, first, count, values.data());
  return values;
}

std::size_t RowDecoder::TakePickled(std::size_t count, ObjectVector& rows) {
  const std::size_t before = rows.size();
  const auto unread = std::tuple(next_, batch_, batch_next_);
  std::size_t taken = 0;
  try {
    while (taken < count && UnpickleNext()) {
      const std::size_t some = std::min(count - taken, ListSize(batch_.ptr()) - batch_next_);
      for (std::size_t i = 0; i < some; ++i) {
        rows.Append(nb::borrow(ListItem(batch_.ptr(), batch_next_ + i)));
      }
      batch_next_ += some;
      taken += some;
    }
  } catch (...) {
    rows.Truncate(before);
    std::tie(next_, batch_, batch_next_) = unread;
    throw;
  }
  return taken;
}

bool RowDecoder::UnpickleNext() {
  const ColumnView& pickles = chunk_.columns()[0];
  const bool rows_in_one = chunk_.kind() == chunk::ChunkKind::kPickledRows;
  const std::uint64_t batches = rows_in_one ? 1 : pickles.values;
  while (!batch_.is_valid() || batch_next_ == ListSize(batch_.ptr())) {
    batch_.reset();
    batch_next_ = 0;
    if (next_ == batches) return false;
    const nb::object loads = nb::module_::import_("pickle").attr("loads");
    nb::list buffers;
    for (std::uint64_t i = 1; rows_in_one && i < pickles.values; ++i) {
      // Arrays will live in this memory, so it must be theirs, and writable.
      const std::span<const std::byte> bytes = pickles.Value(i);
      buffers.append(nb::bytearray(bytes.data(), bytes.size()));
    }
    nb::object batch = loads(ViewOf(pickles.Value(next_)), nb::arg("buffers") = buffers);
    ++next_;
    if (!IsExactly(batch.ptr(), &PyList_Type)) batch = nb::list(batch);
    batch_ = std::move(batch);
  }
  return true;
}

void RowDecoder::Decode(const DecodeNode& node, std::size_t first, std::size_t count,
                        PyObject** out) {
  switch (node.kind) {
    case RowNodeKind::kNone:
      for (std::size_t i = 0; i < count; ++i) out[i] = NewReference(Py_None);
      return;
    case RowNodeKind::kBool:
    case RowNodeKind::kInt:
    case RowNodeKind::kFloat:
    case RowNodeKind::kText:
    case RowNodeKind::kBytes:
      return DecodeScalars(node, first, count, out);
    case RowNodeKind::kNumpyScalar:
      return DecodeNumpyScalars(node, first, count, out);
    case RowNodeKind::kNumpyArray:
      return DecodeArrays(node, first, count, out);
    case RowNodeKind::kNumpyRagged:
      return DecodeRaggedArrays(node, first, count, out);
    case RowNodeKind::kNumberList:
    case RowNodeKind::kNumberTuple:
      return DecodeNumbers(node, first, count, out);
    case RowNodeKind::kStringList:
      return DecodeStringLists(node, first, count, out);
    case RowNodeKind::kList:
    case RowNodeKind::kTuple:
    case RowNodeKind::kSparkRow:
      return DecodeSequences(node, first, count, out);
    case RowNodeKind::kDict:
      return DecodeDicts(node, first, count, out);
  }
}

void RowDecoder::DecodeScalars(const DecodeNode& node, std::size_t first, std::size_t count,
                               PyObject** out) {
  const ColumnView& column = *node.column;
  if (node.kind == RowNodeKind::kText || node.kind == RowNodeKind::kBytes) {
    for (std::size_t i = 0; i < count; ++i) out[i] = StringObject(column, first + i);
    return;
  }
  const std::byte* from = column.data.data() + first * column.value_bytes;
  VisitNumbers(column.dtype, [&](auto read) {
    for (std::size_t i = 0; i < count; ++i, from += column.value_bytes) {
      out[i] = NewOrThrow(read(from));
    }
  });
}

void RowDecoder::DecodeNumbers(const DecodeNode& node, std::size_t first, std::size_t count,
                               PyObject** out) {
  const ColumnView& column = *node.column;
  const std::size_t element = chunk::DTypeBytes(column.dtype);
  const bool list = node.kind == RowNodeKind::kNumberList;
  VisitNumbers(column.dtype, [&](auto read) {
    for (std::size_t i = 0; i < count; ++i) {
      const std::span<const std::byte> value = column.Value(first + i);
      const std::size_t length = value.size() / element;
      const std::byte* from = value.data();
      const auto size = static_cast<Py_ssize_t>(length);
      PyObject* const sequence = NewOrThrow(list ? PyList_New(size) : PyTuple_New(size));
      out[i] = sequence;  // Unfilled slots are null, which releasing it copes with.
      for (std::size_t k = 0; k < length; ++k, from += element) {
        PyObject* const number = NewOrThrow(read(from));
        list ? SetListItem(sequence, k, number) : SetTupleItem(sequence, k, number);
      }
    }
  });
}

void RowDecoder::DecodeStringLists(const DecodeNode& node, std::size_t first, std::size_t count,
                                   PyObject** out) {
  const ColumnView& column = *node.column;
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = StringListObject(column, column.ElementsOf(first + i), column.shape).release().ptr();
  }
}

std::vector<ObjectVector> RowDecoder::DecodeChildren(const DecodeNode& node, std::size_t first,
                                                     std::size_t count) {
  std::vector<ObjectVector> columns;
  columns.reserve(node.children.size());
  for (const DecodeNode& child : node.children) {
    Decode(child, first, count, columns.emplace_back(count).data());
  }
  return columns;
}

void RowDecoder::DecodeSequences(const DecodeNode& node, std::size_t first, std::size_t count,
                                 PyObject** out) {
  std::vector<ObjectVector> columns = DecodeChildren(node, first, count);
  const bool list = node.kind == RowNodeKind::kList;
  const auto size = static_cast<Py_ssize_t>(columns.size());
  const nb::object fields_name = Checked(PyUnicode_InternFromString("__fields__"));
  for (std::size_t i = 0; i < count; ++i) {
    nb::object sequence = Checked(list ? PyList_New(size) : PyTuple_New(size));
    for (std::size_t k = 0; k < columns.size(); ++k) {
      PyObject* const item = columns[k].Take(i);
      list ? SetListItem(sequence.ptr(), k, item) : SetTupleItem(sequence.ptr(), k, item);
    }
    if (node.kind == RowNodeKind::kSparkRow) {
      // As Row itself does it: tuple.__new__, then the fields.
      const auto new_tuple = reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
      const nb::object arguments = Checked(PyTuple_Pack(1, sequence.ptr()));
      sequence = Checked(
          new_tuple(reinterpret_cast<PyTypeObject*>(spark_row_.ptr()), arguments.ptr(), nullptr));
      // Row's own __setattr__ is written in Python and lets only this attribute through.
      if (PyObject_GenericSetAttr(sequence.ptr(), fields_name.ptr(), node.fields.ptr()) != 0) {
        throw nb::python_error();
      }
    }
    out[i] = sequence.release().ptr();
  }
}

void RowDecoder::DecodeDicts(const DecodeNode& node, std::size_t first, std::size_t count,
                             PyObject** out) {
  std::vector<ObjectVector> columns = DecodeChildren(node, first, count);
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = NewOrThrow(PyDict_New());
    for (std::size_t k = 0; k < columns.size(); ++k) {
      if (PyDict_SetItem(out[i], node.keys[k].ptr(), columns[k].data()[i]) != 0) {
        throw nb::python_error();
      }
    }
  }
}

void RowDecoder::DecodeNumpyScalars(const DecodeNode& node, std::size_t first, std::size_t count,
                                    PyObject** out) {
  const ColumnView& column = *node.column;
  const nb::object array = numpy().CopyOf(
      column.data.subspan(first * column.value_bytes, count * column.value_bytes), column.dtype);
  // The elements of an array are scalars of NumPy's own types.
  const nb::object scalars = Checked(PySequence_List(array.ptr()));
  for (std::size_t i = 0; i < count; ++i) out[i] = NewReference(ListItem(scalars.ptr(), i));
}

void RowDecoder::DecodeArrays(const DecodeNode& node, std::size_t first, std::size_t count,
                              PyObject** out) {
  const ColumnView& column = *node.column;
  for (std::size_t i = 0; i < count; ++i) {
    nb::object array = numpy().NewArray(node.shape, column.dtype);
    const std::span<const std::byte> value = column.Value(first + i);
    {
      const BufferView target(array, PyBUF_WRITABLE);
      if (!target.acquired()) throw nb::python_error();
      std::memcpy(target.bytes().data(), value.data(), value.size());
    }
    out[i] = array.release().ptr();
  }
}

void RowDecoder::DecodeRaggedArrays(const DecodeNode& node, std::size_t first, std::size_t count,
                                    PyObject** out) {
  const ColumnView& column = *node.column;
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = numpy().CopyOf(column.Value(first + i), column.dtype).release().ptr();
  }
}

const NumpyTypes& RowDecoder::numpy() {
  if (!numpy_) numpy_.emplace();
  return *numpy_;
}

nb::list DecodeAll(std::span<const std::byte> chunk) {
  constexpr std::size_t kAtOnce = 1024;  // How many rows there are is not always known before.
  RowDecoder decoder(chunk);
  if (!decoder.can_all_be_objects()) {
    ThrowStatus(Status(
        ErrorKind::kBadInput,
        fmt::format("not a valid chunk: {} bytes for {} rows, more objects than so few may claim",
                    chunk.size(), decoder.rows_left())));
  }
  ObjectVector rows;
  while (decoder.Take(kAtOnce, rows) == kAtOnce) {
  }
  return rows.TakeFront(rows.size());
}

}  // namespace tfos::python
