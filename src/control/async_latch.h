#ifndef TFOS_CONTROL_ASYNC_LATCH_H_
#define TFOS_CONTROL_ASYNC_LATCH_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/deadline.h"

namespace tfos::control {

/// Something that coroutines wait for and that happens at most once until `Reset`.
///
/// Owner and lifetime: outlives its waiters. Threads: those of one single-threaded executor.
class AsyncLatch {
 public:
  explicit AsyncLatch(const boost::asio::any_io_executor& executor) : timer_(executor) {}

  bool open() const { return open_; }

  void Open() {
    open_ = true;
    timer_.cancel();
  }

  void Reset() { open_ = false; }

  /// True once open; false when the deadline came first. One waiter at a time.
  boost::asio::awaitable<bool> Wait(Deadline deadline) {
    while (!open_ && !deadline.passed()) {
      timer_.expires_at(deadline.at());
      co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    co_return open_;
  }

 private:
  boost::asio::steady_timer timer_;
  bool open_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_ASYNC_LATCH_H_
