#ifndef TFOS_BASE_PROCESS_UNIQUE_FD_H_
#define TFOS_BASE_PROCESS_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace tfos {

/// Owns one file descriptor and closes it when destroyed.
///
/// Owner and lifetime: move-only. Threads: one owner at a time.
/// Errors: `close` failures are ignored, as the kernel has released the descriptor either way.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.Release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(other.Release());
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  /// Gives the descriptor up without closing it.
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    if (int old = std::exchange(fd_, fd); old >= 0) ::close(old);
  }

 private:
  int fd_ = -1;
};

}  // namespace tfos

#endif  // TFOS_BASE_PROCESS_UNIQUE_FD_H_
