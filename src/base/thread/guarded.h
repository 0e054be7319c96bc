#ifndef TFOS_BASE_THREAD_GUARDED_H_
#define TFOS_BASE_THREAD_GUARDED_H_

#include <cxxabi.h>

#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "tfos/status.h"

namespace tfos {

/// The body of a function that C calls: runs `work`, and tells `fail` what it has thrown.
///
///   fail(ErrorKind kind, const char* what)
///     kNoResources  no memory, or no thread
///     kBug          any other exception
///
/// `fail` can't throw either: it runs where memory may be used up. A thread's cancellation alone
/// passes, as the C library asks for.
template <typename Work, typename Fail>
void Guarded(Work&& work, Fail&& fail) {
  try {
    std::forward<Work>(work)();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (const std::bad_alloc&) {
    fail(ErrorKind::kNoResources, "no memory");
  } catch (const std::system_error& error) {
    const bool none_left = error.code() == std::errc::resource_unavailable_try_again;
    fail(none_left ? ErrorKind::kNoResources : ErrorKind::kBug, error.what());
  } catch (const std::exception& error) {
    fail(ErrorKind::kBug, error.what());
  } catch (...) {
    fail(ErrorKind::kBug, "an exception of unknown type");
  }
}

}  // namespace tfos

#endif  // TFOS_BASE_THREAD_GUARDED_H_
