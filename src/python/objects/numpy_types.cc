#include "python/objects/numpy_types.h"

#include <cstring>
#include <string_view>

namespace tfos::python {

using chunk::DType;

NumpyTypes::NumpyTypes() {
  const nb::module_ numpy = nb::module_::import_("numpy");
  array_ = numpy.attr("ndarray");
  empty_ = numpy.attr("empty");
  const nb::object make_dtype = numpy.attr("dtype");
  object_dtype_ = make_dtype(nb::str("O"));
  for (std::size_t i = 1; i < kDTypes; ++i) {
    const std::string_view name = chunk::kDTypes[i].name;
    dtypes_[i] = make_dtype(nb::str(name.data(), name.size()));
    scalar_types_[i] = dtypes_[i].attr("type");
  }
}

std::optional<DType> NumpyTypes::FromScalarType(PyTypeObject* type) const {
  for (std::size_t i = 1; i < kDTypes; ++i) {
    if (scalar_types_[i].ptr() == reinterpret_cast<PyObject*>(type)) return static_cast<DType>(i);
  }
  return std::nullopt;
}

std::optional<DType> NumpyTypes::FromDType(nb::handle dtype) const {
  for (std::size_t i = 1; i < kDTypes; ++i) {
    if (dtypes_[i].is(dtype)) return static_cast<DType>(i);
  }
  // An unpickled dtype is another object than NumPy's own.
  const nb::object code = dtype.attr("char");
  Py_ssize_t length = 0;
  const char* text = PyUnicode_AsUTF8AndSize(code.ptr(), &length);
  if (text == nullptr) throw nb::python_error();
  if (length != 1 || !dtype.attr("isnative").is(nb::handle(Py_True)) ||
      !dtype.attr("metadata").is_none()) {
    return std::nullopt;
  }
  for (const chunk::DTypeInfo& type : chunk::kDTypes) {
    if (type.bytes != 0 && type.code == text[0]) return type.dtype;
  }
  return std::nullopt;
}

nb::object NumpyTypes::NewArray(nb::handle shape, DType dtype) const {
  PyObject* arguments[] = {shape.ptr(), dtypes_[static_cast<std::size_t>(dtype)].ptr()};
  return Checked(PyObject_Vectorcall(empty_.ptr(), arguments, 2, nullptr));
}

nb::object NumpyTypes::NewObjectArray(std::size_t count) const {
  return empty_(count, object_dtype_);
}

nb::object NumpyTypes::CopyOf(std::span<const std::byte> bytes, DType dtype) const {
  nb::object array = NewArray(nb::int_(bytes.size() / chunk::DTypeBytes(dtype)), dtype);
  const BufferView target(array, PyBUF_WRITABLE);
  if (!target.acquired()) throw nb::python_error();
  std::memcpy(target.bytes().data(), bytes.data(), bytes.size());
  return array;
}

}  // namespace tfos::python
