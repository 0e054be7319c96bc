#ifndef TFOS_PYTHON_OBJECTS_GIL_H_
#define TFOS_PYTHON_OBJECTS_GIL_H_

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

#include <utility>

#include "base/time/wait.h"
#include "tfos/status.h"

namespace tfos::python {

/// Runs `take`, which takes the GIL. Never returns once the interpreter ends: CPython calls
/// pthread_exit then in every thread but its main one, and the first noexcept destructor that this
/// unwinds would end the process with SIGABRT. So a daemon thread waits here for the process to
/// end, as CPython 3.14 lets it wait (https://docs.python.org/3.14/c-api/init.html, "Cautions
/// regarding runtime finalization").
template <typename Take>
auto TakeGil(Take&& take) {
  try {
    return std::forward<Take>(take)();
  } catch (const abi::__forced_unwind&) {
    while (true) ::pause();
  }
}

/// Lets go of the GIL for a scope. Use this and GilHeld rather than nanobind's classes: TakeGil
/// says why. Threads: one that has the GIL.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased() {
    TakeGil([&] { PyEval_RestoreThread(state_); });
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

/// Holds the GIL for a scope. Threads: any, also one that holds it already.
class GilHeld {
 public:
  GilHeld() : state_(TakeGil([] { return PyGILState_Ensure(); })) {}
  ~GilHeld() { PyGILState_Release(state_); }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  PyGILState_STATE state_;
};

/// Calls `function` with the GIL released and returns what it returned. Everything that may wait
/// runs like this, so that the program's other threads go on.
template <typename Function>
auto WithoutGil(Function&& function) {
  const GilReleased released;
  return std::forward<Function>(function)();
}

/// Lets signals (Ctrl-C, a cancelled Spark task) end a wait: runs Python's handlers and fails when
/// one of them raised. Python's error indicator then holds that exception, which ThrowStatus
/// prefers. Call it without the GIL.
inline Status CheckSignals() {
  const GilHeld held;
  if (PyErr_CheckSignals() == 0) return Status::Ok();
  return {ErrorKind::kInterrupted, "interrupted by a signal"};
}

}  // namespace tfos::python

#endif  // TFOS_PYTHON_OBJECTS_GIL_H_
