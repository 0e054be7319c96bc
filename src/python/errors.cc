#include "python/errors.h"

namespace tfos::python {
namespace {

const char* ExceptionName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kRetryLater:
      return "FeedTimeoutError";
    case ErrorKind::kReconnect:
      return "NodeLostError";
    case ErrorKind::kBadInput:
      return "BadInputError";
    case ErrorKind::kUnsupported:
    case ErrorKind::kBug:
      return "FeedError";
  }
  return "FeedError";
}

}  // namespace

void ThrowStatus(const Status& status) {
  if (PyErr_Occurred() == nullptr) {
    const nb::object type = nb::module_::import_("tfos.errors").attr(ExceptionName(status.kind()));
    const std::string text = status.ToString();
    PyErr_SetObject(type.ptr(), nb::str(text.data(), text.size()).ptr());
  }
  throw nb::python_error();
}

}  // namespace tfos::python
