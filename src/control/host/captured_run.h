#ifndef TFOS_CONTROL_HOST_CAPTURED_RUN_H_
#define TFOS_CONTROL_HOST_CAPTURED_RUN_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <cstddef>

#include "base/process/subprocess.h"
#include "base/time/deadline.h"
#include "tfos/status.h"

namespace tfos::control {

/// RunAndCapture for coroutines: runs a short command to its end while the executor serves others.
/// The command is killed when the deadline comes, when its output is longer than
/// `max_output_bytes`, and when the coroutine is destroyed. Errors: as of RunAndCapture.
boost::asio::awaitable<Result<CapturedRun>> RunCaptured(boost::asio::any_io_executor executor,
                                                        SubprocessOptions options,
                                                        Deadline deadline,
                                                        std::size_t max_output_bytes = 1 << 20);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_CAPTURED_RUN_H_
