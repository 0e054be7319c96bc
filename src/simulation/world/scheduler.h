#ifndef TFOS_SIMULATION_WORLD_SCHEDULER_H_
#define TFOS_SIMULATION_WORLD_SCHEDULER_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/time/deadline.h"
#include "simulation/world/random.h"

namespace tfos::simulation {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// What happens next, in simulated time: the only clock that there is.
///
/// Owner and lifetime: of a simulation; events borrow what they touch, which outlives it. Threads:
/// one. Errors: none.
class Scheduler {
 public:
  using TimePoint = Clock::TimePoint;

  TimePoint now() const { return now_; }
  std::uint64_t events() const { return events_; }

  /// Those at the same time happen in the order in which they were scheduled.
  void After(Clock::Duration delay, std::function<void()> what) {
    queue_.push_back({.at = now_ + delay, .number = next_++, .what = std::move(what)});
    std::ranges::push_heap(queue_, Later());
  }

  /// Moves the clock to the next event. False when there is none.
  bool RunNext() {
    if (queue_.empty()) return false;
    std::ranges::pop_heap(queue_, Later());
    const Event event = std::move(queue_.back());
    queue_.pop_back();
    now_ = event.at;
    ++events_;
    event.what();
    return true;
  }

 private:
  struct Event {
    TimePoint at;
    std::uint64_t number = 0;
    std::function<void()> what;
  };
  struct Later {
    bool operator()(const Event& one, const Event& other) const {
      return std::pair(one.at, one.number) > std::pair(other.at, other.number);
    }
  };

  TimePoint now_{seconds(1000)};
  std::uint64_t events_ = 0;
  std::uint64_t next_ = 0;
  std::vector<Event> queue_;
};

/// The last events, for people: kept for a run that is known to fail, as it is run a second time.
///
/// Owner and lifetime: of a simulation. Threads: one. Errors: none.
class Trace {
 public:
  Trace(bool enabled, const Scheduler& scheduler) : enabled_(enabled), scheduler_(scheduler) {}

  bool enabled() const { return enabled_; }

  template <typename... Arguments>
  void Note(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
    if (!enabled_) return;
    const auto time = std::chrono::duration<double>(scheduler_.now().time_since_epoch()).count();
    lines_.push_back(fmt::format("{:10.4f} #{} {}", time - 1000, scheduler_.events(),
                                 fmt::format(text, std::forward<Arguments>(arguments)...)));
    if (lines_.size() > kMost) lines_.pop_front();
  }
  std::string Text() const {
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return text;
  }

 private:
  static constexpr std::size_t kMost = 4000;

  const bool enabled_;
  const Scheduler& scheduler_;
  std::deque<std::string> lines_;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_WORLD_SCHEDULER_H_
