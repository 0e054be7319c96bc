#ifndef TFOS_BASE_TIME_WAIT_H_
#define TFOS_BASE_TIME_WAIT_H_

#include <chrono>
#include <functional>

#include "base/time/deadline.h"
#include "tfos/status.h"

namespace tfos {

/// Asked every `kCheckInterval` while a call waits, on the waiting thread and without any lock
/// held. A failure ends the wait and is what the call returns. This is how signals of a Python
/// program and cancelled Spark tasks get through. Empty: never asked.
using InterruptCheck = std::function<Status()>;

inline constexpr std::chrono::milliseconds kCheckInterval{200};

/// How long a call may wait, and what may end the wait early.
struct Wait {
  Deadline deadline = Deadline::Infinite();
  InterruptCheck check = {};
};

}  // namespace tfos

#endif  // TFOS_BASE_TIME_WAIT_H_
