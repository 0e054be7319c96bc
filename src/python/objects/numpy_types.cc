#include "python/codec/numpy_types.h"

#include <cstring>

namespace tfos::python {
namespace {

using chunk::DType;

struct DTypeName {
  DType dtype;
  const char* name;  // Of the scalar type and of the dtype.
  char code;  // dtype.char. 'q' and 'Q' are other types than 'l' and 'L', so they are not here.
};

constexpr DTypeName kNames[] = {
    {DType::kBool, "bool_", '?'},          {DType::kInt8, "int8", 'b'},
    {DType::kInt16, "int16", 'h'},         {DType::kInt32, "int32", 'i'},
    {DType::kInt64, "int64", 'l'},         {DType::kUint8, "uint8", 'B'},
    {DType::kUint16, "uint16", 'H'},       {DType::kUint32, "uint32", 'I'},
    {DType::kUint64, "uint64", 'L'},       {DType::kFloat16, "float16", 'e'},
    {DType::kFloat32, "float32", 'f'},     {DType::kFloat64, "float64", 'd'},
    {DType::kComplex64, "complex64", 'F'}, {DType::kComplex128, "complex128", 'D'},
};

}  // namespace

NumpyTypes::NumpyTypes() {
  const nb::module_ numpy = nb::module_::import_("numpy");
  array_ = numpy.attr("ndarray");
  empty_ = numpy.attr("empty");
  const nb::object make_dtype = numpy.attr("dtype");
  object_dtype_ = make_dtype(nb::str("O"));
  for (const DTypeName& entry : kNames) {
    const auto index = static_cast<std::size_t>(entry.dtype);
    scalar_types_[index] = numpy.attr(entry.name);
    dtypes_[index] = make_dtype(scalar_types_[index]);
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
  for (const DTypeName& entry : kNames) {
    if (entry.code == text[0]) return entry.dtype;
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
