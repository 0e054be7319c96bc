#include "control/coordinator/history/share_meter.h"

#include <algorithm>
#include <cmath>

namespace tfos::control {
namespace {

/// After so long a speed counts a third of what it did.
constexpr std::chrono::duration<double> kLeastMemory(30);
constexpr double kMemoryShare = 0.25;
/// From here on the time without growth is long, in usual intervals.
constexpr double kManyIntervals = 3;

}  // namespace

void ShareMeter::Take(std::optional<double> share, std::chrono::milliseconds now) {
  if (!share.has_value() || (share_.has_value() && *share < *share_)) {
    *this = ShareMeter();
    share_ = share;
    last_ = now;
    return;
  }
  const bool grows = share_.has_value() && *share > *share_;
  if (!has_begun_) {
    has_begun_ = grows;
  } else if (now > last_) {
    const Seconds passed = now - last_;
    observed_ += passed;
    const double kept = std::exp(-passed / std::max(kLeastMemory, kMemoryShare * observed_));
    grown_ = grown_ * kept + (*share - *share_);
    time_ = time_ * kept + passed;
    if (grows) {
      ++growths_;
      grown_last_ = observed_;
    }
  }
  share_ = share;
  last_ = std::max(last_, now);
}

std::optional<std::chrono::duration<double>> ShareMeter::Left() const {
  if (observed_ < kLeastTime || growths_ < kLeastGrowths || !(grown_ > 0)) return std::nullopt;
  const Seconds patience = std::max<Seconds>(kStandsStill, kManyIntervals * grown_last_ / growths_);
  if (observed_ - grown_last_ > patience) return std::nullopt;
  return time_ * ((1 - *share_) / grown_);
}

}  // namespace tfos::control
