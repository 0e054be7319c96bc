#ifndef TFOS_BASE_THREAD_THREAD_H_
#define TFOS_BASE_THREAD_THREAD_H_

#include <functional>
#include <string>
#include <thread>

#include "tfos/status.h"

namespace tfos {

/// Starts a thread of the library in a program that is not ours.
///
/// Signals go to the program's own threads: those that the system sends are blocked here. Those
/// that a fault of the thread itself raises (SIGSEGV and the like) are not, as a JVM and Python's
/// faulthandler handle them on the thread where they happen. `name` is what `top -H` and debuggers
/// show, of which Linux keeps 15 bytes. An exception that leaves `body` is logged, and ends the
/// thread instead of the process: code that must tell somebody of it catches it.
///
/// Fails with kNoResources when the process may have no more threads (EAGAIN).
Result<std::thread> StartThread(std::string name, std::function<void()> body);

}  // namespace tfos

#endif  // TFOS_BASE_THREAD_THREAD_H_
