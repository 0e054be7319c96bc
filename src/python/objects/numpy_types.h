#ifndef TFOS_PYTHON_OBJECTS_NUMPY_TYPES_H_
#define TFOS_PYTHON_OBJECTS_NUMPY_TYPES_H_

#include <array>
#include <cstddef>
#include <optional>
#include <span>

#include "chunk/chunk.h"
#include "python/objects/python_object.h"

namespace tfos::python {

/// NumPy's types and functions that the codec needs, looked up once. NumPy's C API isn't used, so
/// one build serves NumPy 1 and 2.
///
/// Owner and lifetime: holds references; create and destroy with the GIL held.
/// Threads: any, with the GIL. Errors: throws nb::python_error.
class NumpyTypes {
 public:
  /// Imports NumPy.
  NumpyTypes();

  /// The type `numpy.ndarray`.
  PyTypeObject* array_type() const { return reinterpret_cast<PyTypeObject*>(array_.ptr()); }

  /// The dtype whose scalar type is exactly `type`; none if it isn't one of the format's.
  std::optional<chunk::DType> FromScalarType(PyTypeObject* type) const;

  /// The dtype that a `numpy.dtype` object stands for; none if the format hasn't exactly that one:
  /// another byte order, metadata, structured, dates, text, objects.
  std::optional<chunk::DType> FromDType(nb::handle dtype) const;

  /// NumPy's own object for a dtype.
  nb::handle DTypeObject(chunk::DType dtype) const {
    return dtypes_[static_cast<std::size_t>(dtype)];
  }

  /// A new array with undefined content. `shape` is a tuple.
  nb::object NewArray(nb::handle shape, chunk::DType dtype) const;

  /// A new one-dimensional array of `count` objects, each None.
  nb::object NewObjectArray(std::size_t count) const;

  /// A new one-dimensional array of `bytes.size() / DTypeBytes(dtype)` elements, copied.
  nb::object CopyOf(std::span<const std::byte> bytes, chunk::DType dtype) const;

 private:
  static constexpr std::size_t kDTypes = chunk::kDTypeCount;

  nb::object array_;
  nb::object empty_;
  nb::object object_dtype_;
  std::array<nb::object, kDTypes> scalar_types_;
  std::array<nb::object, kDTypes> dtypes_;
};

/// The memory of an object that has the buffer protocol, held while this lives. Needs the GIL.
class BufferView {
 public:
  /// `flags` as for PyObject_GetBuffer.
  BufferView(nb::handle exporter, int flags)
      : acquired_(PyObject_GetBuffer(exporter.ptr(), &view_, flags) == 0) {}
  ~BufferView() {
    if (acquired_) PyBuffer_Release(&view_);
  }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;

  /// False when the exporter refused; Python's error indicator is then set.
  bool acquired() const { return acquired_; }
  const Py_buffer& view() const { return view_; }
  std::span<std::byte> bytes() const {
    return {static_cast<std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
  bool acquired_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_OBJECTS_NUMPY_TYPES_H_
