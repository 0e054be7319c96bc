#ifndef TFOS_SIMULATION_WORLD_LINK_H_
#define TFOS_SIMULATION_WORLD_LINK_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>

#include "simulation/world/random.h"
#include "simulation/world/scheduler.h"

namespace tfos::simulation {

/// One direction of a connection. Messages arrive in order, each after a random delay, as with TCP.
///
/// Owner and lifetime: of a simulation, and as long as it. Threads: one. Errors: none.
template <typename Message>
class Link {
 public:
  Link(Scheduler& scheduler, Random& random, Clock::Duration most_delay,
       std::function<void(Message)> deliver)
      : scheduler_(scheduler),
        random_(random),
        most_delay_(most_delay),
        deliver_(std::move(deliver)) {}

  void Send(Message message) {
    if (cut_) return;
    under_way_.push_back(std::move(message));
    const auto most = std::chrono::duration_cast<microseconds>(most_delay_).count();
    const auto delay = microseconds(random_.Between(1, static_cast<int>(most)));
    last_ = std::max(last_, scheduler_.now() + delay);
    Schedule(last_ - scheduler_.now());
  }

  /// What is under way, oldest first: it may be replaced by news.
  std::deque<Message>& under_way() { return under_way_; }

  /// Nothing arrives before then. A freeze of the one that reads, or a part of the network.
  void Stall(Scheduler::TimePoint until) { stalled_until_ = std::max(stalled_until_, until); }
  Scheduler::TimePoint stalled_until() const { return stalled_until_; }

  /// Some of the last messages never arrive.
  void LoseSome() {
    under_way_.resize(under_way_.size() - static_cast<std::size_t>(random_.Between(
                                              0, static_cast<int>(under_way_.size()))));
  }
  /// Nothing arrives any more.
  void Cut() {
    cut_ = true;
    under_way_.clear();
  }

 private:
  void Schedule(Clock::Duration delay) {
    scheduler_.After(delay, [this] { DeliverFirst(); });
  }
  void DeliverFirst() {
    if (under_way_.empty()) return;
    if (scheduler_.now() < stalled_until_) return Schedule(stalled_until_ - scheduler_.now());
    Message message = std::move(under_way_.front());
    under_way_.pop_front();
    deliver_(std::move(message));
  }

  Scheduler& scheduler_;
  Random& random_;
  const Clock::Duration most_delay_;
  const std::function<void(Message)> deliver_;
  std::deque<Message> under_way_;
  Scheduler::TimePoint last_{};
  Scheduler::TimePoint stalled_until_{};
  bool cut_ = false;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_WORLD_LINK_H_
