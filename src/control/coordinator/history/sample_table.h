#ifndef TFOS_CONTROL_COORDINATOR_HISTORY_SAMPLE_TABLE_H_
#define TFOS_CONTROL_COORDINATOR_HISTORY_SAMPLE_TABLE_H_

#include <chrono>
#include <cstddef>
#include <vector>

namespace tfos::control {

/// Samples of many values over time, in bounded memory: a row for each moment, a column for each
/// value.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. Units: times count from the
/// start of the cluster. A value that is not known at a moment is NaN.
class SampleTable {
 public:
  enum class WhenFull {
    kDropOldest,  ///< Keeps the latest moments: at least three quarters of the capacity.
    kHalve,       ///< Keeps every second moment, and from then on takes half as many.
  };

  /// `capacity`: the most moments, at least 4. `interval`: between two of them, at first.
  SampleTable(std::size_t capacity, std::chrono::milliseconds interval, WhenFull when_full);

  /// Adds a value that was not known so far, and returns its number.
  std::size_t AddColumn();

  /// Whether the next moment has come; if so it has begun, with all values unknown.
  bool Begin(std::chrono::milliseconds now);
  /// Begins the next moment. If that has not come yet, the latest one is put off to `now` and keeps
  /// the values that aren't set again: so no two are closer together than those of `Begin`.
  void BeginOrPutOff(std::chrono::milliseconds now);
  /// Sets a value of the latest moment.
  void Set(std::size_t column, float value) { columns_[column].back() = value; }

  const std::vector<std::chrono::milliseconds>& times() const { return times_; }
  const std::vector<float>& column(std::size_t number) const { return columns_[number]; }
  std::chrono::milliseconds interval() const { return interval_; }

 private:
  void MakeRoom();

  const std::size_t capacity_;
  const WhenFull when_full_;
  const std::chrono::milliseconds slack_;
  std::chrono::milliseconds interval_;
  std::vector<std::chrono::milliseconds> times_;
  std::vector<std::vector<float>> columns_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_HISTORY_SAMPLE_TABLE_H_
