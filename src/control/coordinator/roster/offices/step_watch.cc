#include "control/coordinator/roster/offices/step_watch.h"

#include <algorithm>

#include "control/messages/parts/metric_names.h"

namespace tfos::control {
namespace {

/// Of the time without a step. With a longer wait, it is the rows that are missing.
constexpr double kMostWaiting = 0.5;

}  // namespace

void StepWatch::Take(const Metrics& metrics, bool explained, Clock::TimePoint now) {
  without_step_ = std::chrono::seconds(0);
  const std::optional<double> step = NumberOf(metrics, KnownName("step"));
  const double waited = NumberOf(metrics, KnownName("feed_node_wait_seconds")).value_or(0);
  Measure(step, metrics, explained, now);
  if (step != step_) {
    // The first step is none yet: a model says 0 when it begins.
    if (step_.value_or(0) > 0 && step.has_value()) {
      ++intervals_;
      sum_ += now - since_;
    }
    step_ = step;
    since_ = now;
    waited_ = waited;
    return;
  }
  if (explained) {
    since_ = now;
    waited_ = waited;
    return;
  }
  if (intervals_ < kFewest) return;
  const Clock::Duration time = now - since_;
  if (time < std::max<Clock::Duration>(kLeast, kUsual * sum_ / intervals_)) return;
  if (waited - waited_ >= kMostWaiting * std::chrono::duration<double>(time).count()) return;
  without_step_ = std::chrono::floor<std::chrono::seconds>(time);
}

void StepWatch::Measure(std::optional<double> step, const Metrics& metrics, bool explained,
                        Clock::TimePoint now) {
  const double rows = NumberOf(metrics, KnownName("rows")).value_or(0);
  const double passed_over = NumberOf(metrics, KnownName("steps_passed_over")).value_or(0);
  const bool moves = step != step_ || rows != rows_ || passed_over != passed_over_;
  // A node that joins reports first from which step it goes on, and that it compiles.
  const bool is_made = step_.has_value() ? step != step_ : !explained;
  has_begun_ = has_begun_ || (step.value_or(0) > 0 && is_made);
  rows_ = rows;
  passed_over_ = passed_over;
  waited_so_far_ = NumberOf(metrics, KnownName("feed_node_wait_seconds")).value_or(0);
  if (moves || !has_begun_) {
    Excuse(now);
    return;
  }
  const auto waited = std::chrono::duration_cast<Clock::Duration>(
      std::chrono::duration<double>(waited_so_far_ - waited_before_));
  standing_ = std::max(Clock::Duration::zero(), now - stands_since_ - waited);
}

void StepWatch::Excuse(Clock::TimePoint now) {
  stands_since_ = now;
  waited_before_ = waited_so_far_;
  standing_ = Clock::Duration::zero();
}

}  // namespace tfos::control
