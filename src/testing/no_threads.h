#ifndef TFOS_TESTING_NO_THREADS_H_
#define TFOS_TESTING_NO_THREADS_H_

#include <gtest/gtest.h>
#include <pthread.h>

#include <cstddef>

namespace tfos::testing {

/// While it exists the process can start no thread: a stack that is larger than any address space
/// fails as a limit on threads does, with EAGAIN.
///
/// Owner and lifetime: a value of one test at a time.
class NoThreads {
 public:
  NoThreads() {
    EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
    pthread_attr_t huge;
    EXPECT_EQ(::pthread_attr_init(&huge), 0);
    EXPECT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 50), 0);
    EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
    ::pthread_attr_destroy(&huge);
  }
  ~NoThreads() {
    EXPECT_EQ(::pthread_setattr_default_np(&before_), 0);
    ::pthread_attr_destroy(&before_);
  }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace tfos::testing

#endif  // TFOS_TESTING_NO_THREADS_H_
