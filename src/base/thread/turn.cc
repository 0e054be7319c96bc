#include "base/thread/turn.h"

#include <utility>

namespace tfos {

// The turn is a flag under the mutex, which says nothing to the analysis.
bool Turn::Take(const Wait& wait, Status& why_not) TFOS_UNCHECKED {
  const MutexLock lock(mutex_);
  while (taken_) {
    Status waited = given_.WaitRound(mutex_, wait, "another thread's call did not end");
    if (waited.ok()) continue;
    why_not = std::move(waited);
    return false;
  }
  taken_ = true;
  return true;
}

void Turn::Give() TFOS_UNCHECKED {
  const MutexLock lock(mutex_);
  taken_ = false;
  given_.NotifyAll();
}

}  // namespace tfos
