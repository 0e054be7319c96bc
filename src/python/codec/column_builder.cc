#include "python/codec/column_builder.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tfos::python {
namespace {

// An array is made for the whole batch at once if it takes no more than this, in bytes. Beyond, it
// grows with what comes: a program may ask for far more rows than there are.
constexpr std::size_t kMadeAtOnceBytes = std::size_t{16} << 20;

BufferView Writable(nb::handle array) {
  return BufferView(array, PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_ND);
}

std::size_t ValueBytes(chunk::DType dtype, std::span<const std::uint64_t> shape) {
  std::size_t bytes = chunk::DTypeBytes(dtype);
  for (const std::uint64_t dimension : shape) bytes *= dimension;
  return bytes;
}

}  // namespace

bool ColumnBuilder::Accepts(const DenseValues& values) const {
  return dense_ && (rows_ == 0 || (dtype_ == values.dtype &&
                                   std::equal(shape_.begin(), shape_.end(), values.shape.begin(),
                                              values.shape.end())));
}

void ColumnBuilder::Start(const DenseValues& values) {
  array_.reset();
  capacity_ = 0;
  dtype_ = values.dtype;
  shape_.assign(values.shape.begin(), values.shape.end());
  python_numbers_ = values.python_numbers;
}

nb::object ColumnBuilder::NewArray(std::size_t rows) const {
  nb::list shape;
  shape.append(rows);
  for (const std::uint64_t dimension : shape_) shape.append(dimension);
  return numpy_->NewArray(nb::tuple(shape), dtype_);
}

void ColumnBuilder::Grow(std::size_t room, std::size_t needed, std::size_t value_bytes) {
  const std::size_t affordable = kMadeAtOnceBytes / std::max<std::size_t>(1, value_bytes);
  const std::size_t capacity = std::min(rows_ + room, std::max(2 * needed, affordable));
  nb::object array = NewArray(capacity);
  if (rows_ != 0) {
    const BufferView from = Writable(array_);
    const BufferView to = Writable(array);
    if (!from.acquired() || !to.acquired()) throw nb::python_error();
    std::memcpy(to.bytes().data(), from.bytes().data(), rows_ * value_bytes);
  }
  array_ = std::move(array);
  capacity_ = capacity;
}

void ColumnBuilder::Add(const DenseValues& values, std::size_t room) {
  if (values.count == 0) return;
  if (!Accepts(values)) {
    ColumnBuilder others(*numpy_);
    others.Add(values, values.count);
    others.TurnIntoObjects();
    return Add(std::move(others.objects_));
  }
  if (rows_ == 0) Start(values);
  const std::size_t value_bytes = ValueBytes(values.dtype, values.shape);
  const std::size_t needed = rows_ + values.count;
  if (needed > capacity_) Grow(room, needed, value_bytes);
  const BufferView array = Writable(array_);
  if (!array.acquired()) throw nb::python_error();
  std::byte* to = array.bytes().data() + rows_ * value_bytes;
  if (values.stride == value_bytes) {
    if (value_bytes != 0) std::memcpy(to, values.data, values.count * value_bytes);
  } else {
    const std::byte* from = values.data;
    for (std::size_t i = 0; i < values.count; ++i, from += values.stride, to += value_bytes) {
      std::memcpy(to, from, value_bytes);
    }
  }
  rows_ = needed;
}

void ColumnBuilder::Add(ObjectVector&& values) {
  if (values.size() == 0) return;
  TurnIntoObjects();
  objects_.Append(std::move(values));
}

void ColumnBuilder::TurnIntoObjects() {
  if (!dense_) return;
  ObjectVector objects;
  if (rows_ != 0) {
    const nb::object values = array_[nb::slice(nb::int_(0), nb::int_(rows_), nb::int_(1))];
    const nb::object list = python_numbers_ && shape_.empty()
                                ? nb::object(values.attr("tolist")())
                                : Checked(PySequence_List(values.ptr()));
    for (std::size_t i = 0; i < rows_; ++i) objects.Append(nb::borrow(ListItem(list.ptr(), i)));
  }
  objects_ = std::move(objects);
  dense_ = false;
  rows_ = 0;
  array_.reset();
  capacity_ = 0;
}

void ColumnBuilder::Truncate(std::size_t rows) {
  if (dense_) {
    rows_ = std::min(rows_, rows);
  } else {
    objects_.Truncate(rows);
  }
}

nb::object ColumnBuilder::Take() {
  if (!dense_) {
    nb::object array = numpy_->NewObjectArray(objects_.size());
    {
      const BufferView target = Writable(array);
      if (!target.acquired()) throw nb::python_error();
      auto** const slots = reinterpret_cast<PyObject**>(target.bytes().data());
      for (std::size_t i = 0; i < objects_.size(); ++i) {
        Py_XDECREF(std::exchange(slots[i], objects_.Take(i)));
      }
    }
    objects_ = ObjectVector();
    dense_ = true;
    return array;
  }
  if (rows_ == 0) return dtype_ == chunk::DType::kNone ? numpy_->NewObjectArray(0) : NewArray(0);
  nb::object array = std::move(array_);
  if (rows_ != capacity_) array = array[nb::slice(nb::int_(0), nb::int_(rows_), nb::int_(1))];
  array_.reset();
  capacity_ = 0;
  rows_ = 0;
  return array;
}

}  // namespace tfos::python
