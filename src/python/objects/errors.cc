#include "python/objects/errors.h"

#include "base/python_error.h"

namespace tfos::python {
namespace {

[[noreturn]] void Throw(const Status& status, const char* name) {
  if (PyErr_Occurred() == nullptr) {
    const nb::object type = nb::module_::import_("tfos.errors").attr(name);
    const std::string text = status.ToString();
    PyErr_SetObject(type.ptr(), nb::str(text.data(), text.size()).ptr());
  }
  throw nb::python_error();
}

}  // namespace

void ThrowStatus(const Status& status) { Throw(status, PythonErrorName(status.kind())); }

void ThrowFileStatus(const Status& status) {
  const int error = status.code().value();
  if (error != 0 && PyErr_Occurred() == nullptr) {
    // With its number Python chooses the class, such as FileNotFoundError.
    const std::string text = status.ToString();
    const nb::object arguments = nb::make_tuple(error, nb::str(text.data(), text.size()));
    PyErr_SetObject(PyExc_OSError, arguments.ptr());
  }
  Throw(status, status.kind() == ErrorKind::kBadInput ? "BadInputError" : "TfosError");
}

}  // namespace tfos::python
