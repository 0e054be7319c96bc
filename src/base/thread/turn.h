#ifndef TFOS_BASE_THREAD_TURN_H_
#define TFOS_BASE_THREAD_TURN_H_

#include "base/thread/mutex.h"
#include "base/time/wait.h"
#include "tfos/status.h"

namespace tfos {

/// A mutex for work that waits. Threads come one after the other, as with a Mutex, but one that
/// waits for its turn keeps its own deadline and interrupt check, however long the first works.
///
/// Owner and lifetime: a member of what it guards; neither moved nor copied. Threads: any. Not
/// recursive. The order of those that wait is not that of their arrival.
class TFOS_THREAD_SAFETY(capability("turn")) Turn {
 public:
  Turn() = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Whether the calling thread has its turn now; give it back through TurnHolder. A turn that is
  /// free is taken whatever `wait` says. `why_not` otherwise:
  ///   kRetryLater  the deadline passed
  ///   others       what the interrupt check returned
  bool Take(const Wait& wait, Status& why_not) TFOS_TRY_ACQUIRE(true);
  void Give() TFOS_RELEASE();

 private:
  Mutex mutex_;
  CondVar given_;
  bool taken_ TFOS_GUARDED_BY(mutex_) = false;
};

/// Gives a turn that was taken back at the end of a scope.
///
/// Owner and lifetime: a local; borrows the turn. Threads: the one that took the turn.
class TFOS_THREAD_SAFETY(scoped_lockable) TurnHolder {
 public:
  explicit TurnHolder(Turn& turn) TFOS_REQUIRES(turn) : turn_(turn) {}
  ~TurnHolder() TFOS_RELEASE() { turn_.Give(); }
  TurnHolder(const TurnHolder&) = delete;
  TurnHolder& operator=(const TurnHolder&) = delete;

 private:
  Turn& turn_;
};

}  // namespace tfos

#endif  // TFOS_BASE_THREAD_TURN_H_
