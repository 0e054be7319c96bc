#ifndef TFOS_PYTHON_OBJECTS_PYTHON_OBJECT_H_
#define TFOS_PYTHON_OBJECTS_PYTHON_OBJECT_H_

#include <nanobind/nanobind.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace tfos::python {

// The few accesses that the codec's inner loops are made of: unchecked macros where the full
// C API is compiled in, calls where only the stable ABI is (wheels for CPython 3.12 and later).
// All need the GIL; "borrowed" results live as long as their container holds them.

namespace nb = nanobind;

inline bool IsExactly(PyObject* object, PyTypeObject* type) { return Py_TYPE(object) == type; }

/// `list` is exactly a list and `index` is inside. Borrowed.
inline PyObject* ListItem(PyObject* list, std::size_t index) {
#ifdef Py_LIMITED_API
  return PyList_GetItem(list, static_cast<Py_ssize_t>(index));
#else
  return PyList_GET_ITEM(list, static_cast<Py_ssize_t>(index));
#endif
}

/// `tuple` is a tuple and `index` is inside. Borrowed.
inline PyObject* TupleItem(PyObject* tuple, std::size_t index) {
#ifdef Py_LIMITED_API
  return PyTuple_GetItem(tuple, static_cast<Py_ssize_t>(index));
#else
  return PyTuple_GET_ITEM(tuple, static_cast<Py_ssize_t>(index));
#endif
}

/// Fills a slot of a new list or tuple. Steals `item`.
inline void SetListItem(PyObject* list, std::size_t index, PyObject* item) {
#ifdef Py_LIMITED_API
  PyList_SetItem(list, static_cast<Py_ssize_t>(index), item);
#else
  PyList_SET_ITEM(list, static_cast<Py_ssize_t>(index), item);
#endif
}
inline void SetTupleItem(PyObject* tuple, std::size_t index, PyObject* item) {
#ifdef Py_LIMITED_API
  PyTuple_SetItem(tuple, static_cast<Py_ssize_t>(index), item);
#else
  PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(index), item);
#endif
}

inline std::size_t ListSize(PyObject* list) {
#ifdef Py_LIMITED_API
  return static_cast<std::size_t>(PyList_Size(list));
#else
  return static_cast<std::size_t>(PyList_GET_SIZE(list));
#endif
}
inline std::size_t TupleSize(PyObject* tuple) {
#ifdef Py_LIMITED_API
  return static_cast<std::size_t>(PyTuple_Size(tuple));
#else
  return static_cast<std::size_t>(PyTuple_GET_SIZE(tuple));
#endif
}

/// `object` is exactly a float.
inline double FloatValue(PyObject* object) {
#ifdef Py_LIMITED_API
  return PyFloat_AsDouble(object);
#else
  return PyFloat_AS_DOUBLE(object);
#endif
}

/// A new reference to the result of a C API call; throws nb::python_error when it failed.
inline nb::object Checked(PyObject* result) {
  if (result == nullptr) throw nb::python_error();
  return nb::steal(result);
}

/// For messages: bytes that are not UTF-8, as of a text that was cut, become U+FFFD.
inline nb::object MessageStr(std::string_view text) {
  return Checked(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

/// For messages: str(object). Unpaired surrogates, which have no UTF-8, become \ud800 and the like.
inline std::string MessageText(nb::handle object) {
  const nb::object bytes =
      Checked(PyUnicode_AsEncodedString(nb::str(object).ptr(), "utf-8", "backslashreplace"));
  return {PyBytes_AsString(bytes.ptr()), nb::len(bytes)};
}

}  // namespace tfos::python

#endif  // TFOS_PYTHON_OBJECTS_PYTHON_OBJECT_H_
