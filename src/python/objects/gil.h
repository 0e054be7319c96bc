#ifndef TFOS_PYTHON_OBJECTS_GIL_H_
#define TFOS_PYTHON_OBJECTS_GIL_H_

#include <utility>

#include "base/time/wait.h"
#include "python/objects/python_object.h"
#include "tfos/status.h"

namespace tfos::python {

/// Calls `function` with the GIL released and returns what it returned. Everything that may wait
/// runs like this, so that the program's other threads go on.
template <typename Function>
auto WithoutGil(Function&& function) {
  const nb::gil_scoped_release release;
  return std::forward<Function>(function)();
}

/// Lets signals (Ctrl-C, a cancelled Spark task) end a wait: runs Python's handlers and fails when
/// one of them raised. Python's error indicator then holds that exception, which ThrowStatus
/// prefers. Call it without the GIL.
inline Status CheckSignals() {
  const nb::gil_scoped_acquire acquire;
  if (PyErr_CheckSignals() == 0) return Status::Ok();
  return {ErrorKind::kInterrupted, "interrupted by a signal"};
}

}  // namespace tfos::python

#endif  // TFOS_PYTHON_OBJECTS_GIL_H_
