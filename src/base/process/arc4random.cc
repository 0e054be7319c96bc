// The static libstdc++ calls arc4random where the building host has it, which is from glibc 2.36
// on. This one takes its place, so that what is built there also loads where glibc is 2.34 or 2.35.

#include <sys/random.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

extern "C" std::uint32_t arc4random() noexcept {
  std::uint32_t number = 0;
  // Few bytes come whole, unless a signal comes before the system has gathered its first entropy.
  while (::getrandom(&number, sizeof number, 0) != static_cast<ssize_t>(sizeof number)) {
    if (errno != EINTR) std::abort();
  }
  return number;
}
