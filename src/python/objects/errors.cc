#include "python/objects/errors.h"

#include "base/python_error.h"

namespace tfos::python {
namespace {

/// What the other domains have instead of the classes of a failed feed.
struct Names {
  const char* timeout;
  const char* lost;
  const char* other;
};
constexpr Names kTensors = {"TensorTimeoutError", "NodeLostError", "TensorError"};
constexpr Names kCluster = {"ClusterTimeoutError", "TfosError", "TfosError"};

const char* ExceptionName(ErrorKind kind, Domain domain) {
  if (domain == Domain::kFeed) return PythonErrorName(kind);
  const Names& names = domain == Domain::kTensors ? kTensors : kCluster;
  switch (kind) {
    case ErrorKind::kRetryLater:
      return names.timeout;
    case ErrorKind::kReconnect:
      return names.lost;
    case ErrorKind::kBadInput:
    case ErrorKind::kNoResources:
      return PythonErrorName(kind);
    case ErrorKind::kUnsupported:
    case ErrorKind::kSuperseded:
    case ErrorKind::kInterrupted:
    case ErrorKind::kBug:
      break;
  }
  return names.other;
}

[[noreturn]] void Throw(const Status& status, const char* name) {
  if (PyErr_Occurred() == nullptr) {
    const nb::object type = nb::module_::import_("tfos.errors").attr(name);
    PyErr_SetObject(type.ptr(), MessageStr(status.ToString()).ptr());
  }
  throw nb::python_error();
}

}  // namespace

void ThrowStatus(const Status& status, Domain domain) {
  Throw(status, ExceptionName(status.kind(), domain));
}

void ThrowFileStatus(const Status& status) {
  const int error = status.code().value();
  if (error != 0 && PyErr_Occurred() == nullptr) {
    // With its number Python chooses the class, such as FileNotFoundError.
    const nb::object arguments = nb::make_tuple(error, MessageStr(status.ToString()));
    PyErr_SetObject(PyExc_OSError, arguments.ptr());
  }
  Throw(status, status.kind() == ErrorKind::kBadInput ? "BadInputError" : "TfosError");
}

}  // namespace tfos::python
