#ifndef TFOS_PYTHON_OBJECTS_ERRORS_H_
#define TFOS_PYTHON_OBJECTS_ERRORS_H_

#include <utility>

#include "python/objects/python_object.h"
#include "tfos/status.h"

namespace tfos::python {

// How failures cross from C++ to Python. Inside this folder C++ exceptions are allowed, because
// nanobind turns them into Python's at its edge; nothing below this folder throws.

/// Throws the exception of tfos.errors that fits a failure of the feed (base/python_error.h). When
/// Python's error indicator is set (a signal handler raised), that error wins. Needs the GIL.
[[noreturn]] void ThrowStatus(const Status& status);

/// Throws the exception that fits a failure with files: OSError where the operating system said no,
/// else BadInputError for kBadInput and TfosError for others. Python's error indicator wins, as
/// above. Needs the GIL.
[[noreturn]] void ThrowFileStatus(const Status& status);

inline void ThrowIfFileError(const Status& status) {
  if (!status.ok()) ThrowFileStatus(status);
}

template <typename T>
T FileValueOrThrow(Result<T> result) {
  if (!result.ok()) ThrowFileStatus(result.status());
  return std::move(result).value();
}

inline void ThrowIfError(const Status& status) {
  if (!status.ok()) ThrowStatus(status);
}

template <typename T>
T ValueOrThrow(Result<T> result) {
  if (!result.ok()) ThrowStatus(result.status());
  return std::move(result).value();
}

}  // namespace tfos::python

#endif  // TFOS_PYTHON_OBJECTS_ERRORS_H_
