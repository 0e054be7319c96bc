#include "control/coordinator/history/sample_table.h"

#include <limits>

namespace tfos::control {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

/// Keeps the second of each pair. The latest value of a counter then stands for both.
template <typename T>
void KeepEverySecond(std::vector<T>& values) {
  std::size_t kept = 0;
  for (std::size_t i = 1; i < values.size(); i += 2) values[kept++] = values[i];
  values.resize(kept);
}

template <typename T>
void DropFirst(std::vector<T>& values, std::size_t count) {
  values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace

SampleTable::SampleTable(std::size_t capacity, std::chrono::milliseconds interval,
                         WhenFull when_full)
    : capacity_(capacity / 4 * 4),
      when_full_(when_full),
      slack_(interval / 4),
      interval_(interval) {
  times_.reserve(capacity_);
}

std::size_t SampleTable::AddColumn() {
  std::vector<float>& column = columns_.emplace_back();
  column.reserve(capacity_);
  column.resize(times_.size(), kUnknown);
  return columns_.size() - 1;
}

bool SampleTable::Begin(std::chrono::milliseconds now) {
  // A tick that comes a little early must not cost a whole interval.
  const auto is_early = [&] { return !times_.empty() && now - times_.back() < interval_ - slack_; };
  if (is_early()) return false;
  if (times_.size() == capacity_) {
    MakeRoom();
    if (is_early()) return false;  // The interval may be longer now.
  }
  times_.push_back(now);
  for (std::vector<float>& column : columns_) column.push_back(kUnknown);
  return true;
}

void SampleTable::BeginOrPutOff(std::chrono::milliseconds now) {
  if (!Begin(now)) times_.back() = now;
}

void SampleTable::MakeRoom() {
  if (when_full_ == WhenFull::kHalve) {
    interval_ *= 2;
    KeepEverySecond(times_);
    for (std::vector<float>& column : columns_) KeepEverySecond(column);
    return;
  }
  DropFirst(times_, capacity_ / 4);
  for (std::vector<float>& column : columns_) DropFirst(column, capacity_ / 4);
}

}  // namespace tfos::control
