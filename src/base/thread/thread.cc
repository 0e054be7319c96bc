#include "base/thread/thread.h"

#include <cxxabi.h>
#include <pthread.h>
#include <signal.h>

#include <exception>
#include <system_error>
#include <utility>

#include "base/format.h"
#include "base/logging.h"

namespace tfos {
namespace {

/// What Linux keeps of a thread's name, without the NUL.
constexpr std::size_t kNameBytes = 15;

/// Blocks what the system may send to any thread. A new thread inherits the mask from its creator.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    ::sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      ::sigdelset(&blocked, fault);
    }
    ::pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

void Run(const std::string& name, const std::function<void()>& body) {
  ::pthread_setname_np(::pthread_self(), name.substr(0, kNameBytes).c_str());
  try {
    body();
  } catch (const abi::__forced_unwind&) {
    throw;  // pthread_exit, which Python calls in threads that come too late at its end.
  } catch (const std::exception& error) {
    LogError("the thread '{}' ended: {}", name, error.what());
  } catch (...) {
    LogError("the thread '{}' ended with an exception of unknown type", name);
  }
}

}  // namespace

Result<std::thread> StartThread(std::string name, std::function<void()> body) {
  const std::string step = fmt::format("start the thread '{}'", name);
  const SignalsBlocked blocked;
  try {
    return std::thread([name = std::move(name), body = std::move(body)] { Run(name, body); });
  } catch (const std::system_error& error) {
    // Not by its errno: elsewhere, EAGAIN says that the same call may succeed in a moment.
    return Status(ErrorKind::kNoResources, fmt::format("{}: {}", step, error.code().message()));
  }
}

}  // namespace tfos
