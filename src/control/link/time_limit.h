#ifndef TFOS_CONTROL_LINK_TIME_LIMIT_H_
#define TFOS_CONTROL_LINK_TIME_LIMIT_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace tfos::control {

/// Calls back when a time is over, unless it is lifted before.
///
/// Owner and lifetime: a member; nothing is called once it is gone. Threads: those of one
/// single-threaded executor. Errors: none.
class TimeLimit {
 public:
  explicit TimeLimit(const boost::asio::any_io_executor& executor) : timer_(executor) {}
  ~TimeLimit() { Lift(); }
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

  /// In place of the limit before.
  void Set(std::chrono::nanoseconds patience, std::function<void()> late) {
    Lift();
    timer_.expires_after(patience);
    timer_.async_wait([current = current_, mine = *current_,
                       late = std::move(late)](const boost::system::error_code& cancelled) {
      if (!cancelled && *current == mine) late();
    });
  }

  void Lift() {
    // Cancelling does not reach a handler that is queued already, because the time was over in the
    // same round.
    ++*current_;
    timer_.cancel();
  }

 private:
  boost::asio::steady_timer timer_;
  const std::shared_ptr<std::uint64_t> current_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_TIME_LIMIT_H_
