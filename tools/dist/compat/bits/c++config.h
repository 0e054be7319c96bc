// Comes before libstdc++'s own file of this name, which was made for the C library of this machine.
// It takes back what the release's older C library lacks: waiting by the steady clock, of glibc
// 2.30. What waits for a time uses tfos::CondVar, which needs none of that.
#include_next <bits/c++config.h>
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK
