#include "control/agent/child/answer_watch.h"

#include <algorithm>
#include <chrono>

namespace tfos::control {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kMostInterval(1000);
constexpr milliseconds kLeastInterval(10);
constexpr int kLooksInPatience = 20;
/// A look that is later than this was held up, and with it whatever the node has said.
constexpr int kMostIntervals = 2;

Clock::Duration IntervalFor(Clock::Duration patience) {
  if (patience == Clock::Duration::zero()) return kMostInterval;
  return std::clamp<Clock::Duration>(patience / kLooksInPatience, kLeastInterval, kMostInterval);
}

}  // namespace

AnswerWatch::AnswerWatch(Clock::Duration patience)
    : patience_(patience), interval_(IntervalFor(patience)) {}

void AnswerWatch::OnAnswer() {
  if (state_ == State::kOver) return;
  state_ = State::kAnswers;
  silence_ = Clock::Duration::zero();
}

void AnswerWatch::OnLastWord() {
  state_ = State::kOver;
  silence_ = Clock::Duration::zero();
}

bool AnswerWatch::Look(Clock::TimePoint now) {
  if (state_ == State::kAsked) silence_ += std::min(now - looked_, kMostIntervals * interval_);
  looked_ = now;
  if (state_ != State::kAnswers) return false;
  state_ = State::kAsked;
  return true;
}

}  // namespace tfos::control
