#ifndef TFOS_CONTROL_LINK_STREAM_WATCHED_FD_H_
#define TFOS_CONTROL_LINK_STREAM_WATCHED_FD_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>

namespace tfos::control {

/// A descriptor that coroutines wait for, and that stays its owner's.
///
/// Owner and lifetime: a member; goes, or is released, before the descriptor is closed.
/// Threads: those of one single-threaded executor.
class WatchedFd {
 public:
  using Event = boost::asio::posix::descriptor_base::wait_type;
  static constexpr Event kInput = boost::asio::posix::descriptor_base::wait_read;
  static constexpr Event kOutput = boost::asio::posix::descriptor_base::wait_write;

  WatchedFd(const boost::asio::any_io_executor& executor, int fd) : descriptor_(executor, fd) {}
  WatchedFd(WatchedFd&&) = default;
  WatchedFd& operator=(WatchedFd&&) = delete;
  ~WatchedFd() { Release(); }

  boost::asio::any_io_executor executor() { return descriptor_.get_executor(); }
  bool watched() const { return descriptor_.is_open(); }

  /// Calls `token` as `void(error_code)` when there is input or room for output; with
  /// operation_aborted once it is released.
  template <typename Token>
  auto Wait(Event event, Token&& token) {
    return descriptor_.async_wait(event, std::forward<Token>(token));
  }

  /// Ends all waits.
  void Release() {
    if (descriptor_.is_open()) descriptor_.release();
  }

 private:
  boost::asio::posix::stream_descriptor descriptor_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_STREAM_WATCHED_FD_H_
