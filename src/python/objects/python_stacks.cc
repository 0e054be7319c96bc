#include "python/objects/python_stacks.h"

#include <fcntl.h>
#include <nanobind/stl/string.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <exception>
#include <string_view>
#include <thread>
#include <utility>

#include "base/thread/mutex.h"
#include "base/thread/thread.h"
#include "base/time/deadline.h"
#include "python/objects/python_object.h"

namespace tfos::python {
namespace {

/// A thread that runs Python gives the lock to another one within 5 ms.
constexpr std::chrono::seconds kLockPatience(2);
/// Of an answer, with room for what the agent adds to it in a message.
constexpr std::size_t kMostBytes = 1u << 20;

/// For those who ask gently.
constexpr std::string_view kLeftOut =
    "Python's stacks are left out: a thread holds Python's lock in native code. To read them "
    "without "
    "the lock could crash the process in a rare case, so only those who may end the cluster can. "
    "On "
    "the driver's host, run: tfos stack NODE\n";

/// What the thread that waits for the lock shares with the one that waits for that thread.
struct Attempt {
  Mutex mutex;
  CondVar changed;
  bool done TFOS_GUARDED_BY(mutex) = false;
  std::string text TFOS_GUARDED_BY(mutex);
};

/// With the lock.
std::string AskPython() {
  try {
    return nb::cast<std::string>(nb::module_::import_("tfos.node.stacks").attr("text")());
  } catch (const std::exception& error) {
    return std::string("Python can't tell its stacks: ") + error.what() + "\n";
  }
}

}  // namespace

Result<std::shared_ptr<PythonStacks>> PythonStacks::Create(int signal, int file) {
  UniqueFd own(::fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!own.valid()) return Status::FromErrno(errno, "keep the file for stacks");
  struct sigaction action {};
  if (::sigaction(signal, nullptr, &action) != 0) {
    return Status::FromErrno(errno, "look at the signal for stacks");
  }
  std::shared_ptr<PythonStacks> stacks(new PythonStacks(signal, std::move(own)));
  stacks->dump_ = action.sa_handler;
  return stacks;
}

std::string PythonStacks::Text(bool gentle) {
  std::string text = TextWithLock();
  if (text.empty()) text = gentle ? std::string(kLeftOut) : TextWithoutLock();
  text.resize(std::min(text.size(), kMostBytes));
  return text;
}

std::string PythonStacks::TextWithLock() {
  if (waits_for_lock_.exchange(true)) return {};
  const auto attempt = std::make_shared<Attempt>();
  Result<std::thread> started =
      StartThread("tfos-stacks-gil", [self = shared_from_this(), attempt] {
        std::string text;
        {
          const nb::gil_scoped_acquire lock;
          self->waits_for_lock_ = false;
          text = AskPython();
        }
        const MutexLock held(attempt->mutex);
        attempt->text = std::move(text);
        attempt->done = true;
        attempt->changed.NotifyAll();
      });
  if (!started.ok()) {
    waits_for_lock_ = false;
    return started.status().ToString() + "\n";
  }
  // It may wait for as long as the process lives.
  started->detach();
  const Deadline deadline = Deadline::After(kLockPatience);
  const MutexLock held(attempt->mutex);
  while (!attempt->done && !deadline.passed()) attempt->changed.WaitUntil(attempt->mutex, deadline);
  return std::move(attempt->text);
}

std::string PythonStacks::TextWithoutLock() const {
  struct sigaction action {};
  if (::sigaction(signal_, nullptr, &action) != 0 || action.sa_handler != dump_) {
    return "a thread holds Python's lock in native code, and the program has taken the signal by "
           "which tfos would read the stacks all the same\n";
  }
  if (::ftruncate(file_.get(), 0) != 0 || ::lseek(file_.get(), 0, SEEK_SET) != 0) {
    return "the file for the stacks was not emptied\n";
  }
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, signal_);
  // Threads of tfos take no signals. This one is for it alone, and is handled before raise returns.
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::raise(signal_);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::string text =
      "A thread holds Python's lock in native code, so Python itself can't say this.\n\n";
  std::array<char, 65536> bytes;
  off_t at = 0;
  while (text.size() < kMostBytes) {
    const ssize_t got = ::pread(file_.get(), bytes.data(), bytes.size(), at);
    if (got <= 0) break;
    text.append(bytes.data(), static_cast<std::size_t>(got));
    at += got;
  }
  return text;
}

}  // namespace tfos::python
