#ifndef TFOS_BASE_THREAD_MUTEX_H_
#define TFOS_BASE_THREAD_MUTEX_H_

#include <pthread.h>

#include <mutex>
#include <string_view>

#include "base/time/deadline.h"
#include "base/time/wait.h"
#include "tfos/status.h"

// What a mutex guards, said so that Clang checks it when it compiles (`cmake --preset clang`).
// Other compilers see nothing of it.
#if defined(__clang__)
#define TFOS_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define TFOS_THREAD_SAFETY(attribute)
#endif

/// A member that is read and written only while the mutex is held.
#define TFOS_GUARDED_BY(mutex) TFOS_THREAD_SAFETY(guarded_by(mutex))
/// A pointer whose target, not the pointer, is guarded.
#define TFOS_POINTEE_GUARDED_BY(mutex) TFOS_THREAD_SAFETY(pt_guarded_by(mutex))
/// The caller holds the mutex.
#define TFOS_REQUIRES(...) TFOS_THREAD_SAFETY(requires_capability(__VA_ARGS__))
/// The caller does not hold the mutex: the function takes it, or waits for somebody who does.
#define TFOS_EXCLUDES(...) TFOS_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
/// The function returns with the mutex held, or given up.
#define TFOS_ACQUIRE(...) TFOS_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define TFOS_RELEASE(...) TFOS_THREAD_SAFETY(release_capability(__VA_ARGS__))
/// As TFOS_ACQUIRE, where the function returns the first argument.
#define TFOS_TRY_ACQUIRE(...) TFOS_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
/// The function returns a reference to the mutex.
#define TFOS_RETURNS_MUTEX(mutex) TFOS_THREAD_SAFETY(lock_returned(mutex))
/// From here on the mutex counts as held, for code that the analysis can't follow: a callback that
/// is only called under it.
#define TFOS_ASSERTS_HELD(...) TFOS_THREAD_SAFETY(assert_capability(__VA_ARGS__))
/// The body is not checked. Say why beside it.
#define TFOS_UNCHECKED TFOS_THREAD_SAFETY(no_thread_safety_analysis)

namespace tfos {

/// A mutex that Clang knows, so that what it guards can be declared: see TFOS_GUARDED_BY.
///
/// Owner and lifetime: a member of what it guards; neither moved nor copied. Threads: any. Not
/// recursive. Prefer MutexLock to Lock and Unlock.
class TFOS_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() TFOS_ACQUIRE() { mutex_.lock(); }
  void Unlock() TFOS_RELEASE() { mutex_.unlock(); }
  bool TryLock() TFOS_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  /// Tells the analysis what the caller knows. Nothing is checked at run time.
  void AssertHeld() const TFOS_ASSERTS_HELD() {}

 private:
  friend class CondVar;

  std::mutex mutex_;
};

/// Holds a mutex for a scope. What must not run under it goes between Unlock and Lock.
///
/// Owner and lifetime: a local; borrows the mutex. Threads: the one that made it.
class TFOS_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TFOS_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  /// Takes over a mutex that TryLock has locked.
  MutexLock(Mutex& mutex, std::adopt_lock_t) TFOS_REQUIRES(mutex) : mutex_(mutex) {}
  ~MutexLock() TFOS_RELEASE() {
    if (held_) mutex_.Unlock();
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void Unlock() TFOS_RELEASE() {
    held_ = false;
    mutex_.Unlock();
  }
  void Lock() TFOS_ACQUIRE() {
    mutex_.Lock();
    held_ = true;
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

/// Where threads wait for a change of what a mutex guards. Wakes without a cause happen: wait in a
/// loop that looks at the condition. (A predicate as a lambda would hide the mutex from Clang.)
///
/// It waits by the monotonic clock, with every C library. std::condition_variable waits by the wall
/// clock where the library is older than glibc 2.30, so for an hour more if that is set back by
/// one.
///
/// Owner and lifetime: beside its mutex; nobody waits when it goes. Threads: any.
class CondVar {
 public:
  CondVar();
  ~CondVar() { ::pthread_cond_destroy(&changed_); }
  CondVar(const CondVar&) = delete;
  CondVar& operator=(const CondVar&) = delete;

  void NotifyOne() { ::pthread_cond_signal(&changed_); }
  void NotifyAll() { ::pthread_cond_broadcast(&changed_); }

  /// Until notified.
  void Wait(Mutex& mutex) TFOS_REQUIRES(mutex);
  /// Until notified or the deadline. Returns false once the deadline has passed.
  bool WaitUntil(Mutex& mutex, const Deadline& deadline) TFOS_REQUIRES(mutex);
  /// One round of a call that waits as `wait` says: until notified or `kCheckInterval`, then asks
  /// the interrupt check, without the mutex.
  ///   OK           look at the condition again
  ///   kRetryLater  the deadline passed: "`nothing` within the deadline"
  ///   others       what the interrupt check returned
  Status WaitRound(Mutex& mutex, const tfos::Wait& wait, std::string_view nothing)
      TFOS_REQUIRES(mutex);

 private:
  /// Until notified, or for that long at most.
  void WaitFor(Mutex& mutex, Clock::Duration time);

  pthread_cond_t changed_;
};

}  // namespace tfos

#endif  // TFOS_BASE_THREAD_MUTEX_H_
