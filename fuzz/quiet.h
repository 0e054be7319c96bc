#ifndef TFOS_FUZZ_QUIET_H_
#define TFOS_FUZZ_QUIET_H_

#include "base/logging.h"

namespace tfos {

/// Has a fuzz target log from this level on, such as "ERROR": it provokes more lines than anybody
/// reads. Takes effect once. Threads: any.
inline void LogOnly(const char* level) {
  [[maybe_unused]] static const bool once = [&] {
    SetUpLogging("fuzz", level);
    return true;
  }();
}

}  // namespace tfos

#endif  // TFOS_FUZZ_QUIET_H_
