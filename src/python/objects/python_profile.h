#ifndef TFOS_PYTHON_OBJECTS_PYTHON_PROFILE_H_
#define TFOS_PYTHON_OBJECTS_PYTHON_PROFILE_H_

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "tfos/status.h"

namespace tfos::python {

/// Samples what the threads of Python in this process are at, for a while. A thread of its own asks
/// for Python's lock 100 times a second, and looks at all frames while it has it. A sample stands
/// for the time since the one before: so code that keeps the lock for long counts for its whole
/// time, where it lets go of it.
///
/// Owner and lifetime: shared by the thread that asks and the one that samples.
/// Threads: `Take` from any, one at a time.
class PythonProfile : public std::enable_shared_from_this<PythonProfile> {
 public:
  static std::shared_ptr<PythonProfile> Create();

  /// Samples for `time` and returns base/profile's StackProfile as text.
  /// Errors: retry-later, where a thread keeps Python's lock for longer than `time` and kPatience;
  /// unsupported, in words, for whatever Python says.
  Result<std::string> Take(std::chrono::milliseconds time);

 private:
  PythonProfile() = default;
  /// A thread samples, or waits for the lock, maybe for ever: no second one joins it.
  std::atomic<bool> samples_ = false;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_OBJECTS_PYTHON_PROFILE_H_
