#ifndef TFOS_PYTHON_OBJECTS_PYTHON_STACKS_H_
#define TFOS_PYTHON_OBJECTS_PYTHON_STACKS_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/process/unique_fd.h"
#include "tfos/status.h"

namespace tfos::python {

/// What the threads of Python in this process are at, also while one of them holds Python's lock in
/// native code and never lets go of it.
///
/// First it asks for the lock for kLockPatience. With it nothing of Python moves, so the module
/// tfos.node.stacks can say everything safely. A thread that keeps it for longer runs no Python:
/// then faulthandler reads the threads' frames without the lock. It may crash the process if the
/// holder returns from its native code in that very moment. So those who may not harm the process
/// ask gently, and get a text that says what is left out. Native calls are the agent's to find.
///
/// Owner and lifetime: shared by the thread that asks and the one that waits for the lock.
/// Threads: `Text` from any but one at a time, and without the lock. Errors: the text says so.
class PythonStacks : public std::enable_shared_from_this<PythonStacks> {
 public:
  /// `signal`: what faulthandler was registered for, with `file` as its file, for all threads. It
  /// is never sent to the process: this raises it in a thread of its own, to call faulthandler.
  /// Errors: what the system says of the file.
  static Result<std::shared_ptr<PythonStacks>> Create(int signal, int file);

  /// `gentle`: with the lock or not at all.
  std::string Text(bool gentle);

 private:
  PythonStacks(int signal, UniqueFd file) : signal_(signal), file_(std::move(file)) {}
  /// Empty when the lock was not free in time.
  std::string TextWithLock();
  std::string TextWithoutLock() const;

  const int signal_;
  const UniqueFd file_;
  void (*dump_)(int) = nullptr;  ///< faulthandler's, as the system has it for the signal.
  /// A thread waits for the lock, maybe for ever: no second one joins it.
  std::atomic<bool> waits_for_lock_ = false;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_OBJECTS_PYTHON_STACKS_H_
