#ifndef TFOS_CONTROL_LINK_SPAWN_H_
#define TFOS_CONTROL_LINK_SPAWN_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <exception>
#include <functional>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "tfos/status.h"

namespace tfos::control {

/// What a coroutine died of, in words.
inline Status StatusOf(const std::exception_ptr& thrown, const std::string& name) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return Status(ErrorKind::kBug, fmt::format("failed to {}: {}", name, error.what()));
  } catch (...) {
    return Status(ErrorKind::kBug, fmt::format("failed to {}: an unknown exception", name));
  }
}

/// Starts a coroutine that nobody waits for. The code of this project throws nothing, but memory
/// may run out under it and a library may throw. Then the log says what failed to be done, and
/// `on_failure` ends what depends on it, so that nothing waits for a coroutine that is dead.
///
/// `name` says what the coroutine does, to follow "failed to". `on_failure` is called at most once,
/// on `executor`, and never when the executor is destroyed before the coroutine has ended.
template <typename OnFailure>
void Spawn(const boost::asio::any_io_executor& executor, std::string name,
           boost::asio::awaitable<void> coroutine, OnFailure on_failure) {
  boost::asio::co_spawn(executor, std::move(coroutine),
                        [name = std::move(name), on_failure = std::move(on_failure)](
                            const std::exception_ptr& thrown) mutable {
                          if (thrown == nullptr) return;
                          const Status failure = StatusOf(thrown, name);
                          LogError("{}", failure.message());
                          on_failure(failure);
                        });
}

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_SPAWN_H_
