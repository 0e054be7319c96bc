#include "python/objects/errors.h"

namespace tfos::python {
namespace {

/// The exceptions of one domain where those differ.
struct Names {
  const char* timeout;
  const char* lost;
  const char* other;
};

Names NamesOf(Domain domain) {
  switch (domain) {
    case Domain::kFeed:
      return {"FeedTimeoutError", "NodeLostError", "FeedError"};
    case Domain::kTensors:
      return {"TensorTimeoutError", "NodeLostError", "TensorError"};
    case Domain::kCluster:
      break;
  }
  return {"ClusterTimeoutError", "TfosError", "TfosError"};
}

const char* ExceptionName(ErrorKind kind, Domain domain) {
  switch (kind) {
    case ErrorKind::kRetryLater:
      return NamesOf(domain).timeout;
    case ErrorKind::kReconnect:
      return NamesOf(domain).lost;
    case ErrorKind::kBadInput:
      return "BadInputError";
    case ErrorKind::kNoResources:
      return "ResourceError";
    case ErrorKind::kUnsupported:
    case ErrorKind::kSuperseded:
    case ErrorKind::kInterrupted:
    case ErrorKind::kBug:
      break;
  }
  return NamesOf(domain).other;
}

[[noreturn]] void Throw(const Status& status, const char* name) {
  if (PyErr_Occurred() == nullptr) {
    const nb::object type = nb::module_::import_("tfos.errors").attr(name);
    const std::string text = status.ToString();
    PyErr_SetObject(type.ptr(), nb::str(text.data(), text.size()).ptr());
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
    const std::string text = status.ToString();
    const nb::object arguments = nb::make_tuple(error, nb::str(text.data(), text.size()));
    PyErr_SetObject(PyExc_OSError, arguments.ptr());
  }
  Throw(status, status.kind() == ErrorKind::kBadInput ? "BadInputError" : "TfosError");
}

}  // namespace tfos::python
