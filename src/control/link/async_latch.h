#ifndef TFOS_CONTROL_LINK_ASYNC_LATCH_H_
#define TFOS_CONTROL_LINK_ASYNC_LATCH_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <vector>

#include "base/time/deadline.h"

namespace tfos::control {

/// Something that coroutines wait for and that happens at most once until `Reset`.
///
/// Owner and lifetime: outlives its waiters. Threads: those of one single-threaded executor.
class AsyncLatch {
 public:
  explicit AsyncLatch(const boost::asio::any_io_executor& executor) : executor_(executor) {}

  bool open() const { return open_; }

  void Open() {
    open_ = true;
    for (boost::asio::steady_timer* waiter : waiters_) waiter->cancel();
  }

  void Reset() { open_ = false; }

  /// True once open; false when the deadline came first. Any number of waiters.
  boost::asio::awaitable<bool> Wait(Deadline deadline) {
    // Each waiter has a timer of its own: setting a shared one anew would wake all others.
    boost::asio::steady_timer timer(executor_, deadline.at());
    waiters_.push_back(&timer);
    while (!open_ && !deadline.passed()) {
      co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    std::erase(waiters_, &timer);
    co_return open_;
  }

 private:
  boost::asio::any_io_executor executor_;
  std::vector<boost::asio::steady_timer*> waiters_;
  bool open_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_ASYNC_LATCH_H_
