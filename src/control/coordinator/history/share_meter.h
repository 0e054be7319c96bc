#ifndef TFOS_CONTROL_COORDINATOR_HISTORY_SHARE_METER_H_
#define TFOS_CONTROL_COORDINATOR_HISTORY_SHARE_METER_H_

#include <chrono>
#include <optional>

namespace tfos::control {

/// How long work takes that is done to a share. Its speed is a mean in which the latest counts
/// most: half a minute's at first, a quarter of the run's later. So a pause, such as the validation
/// after an epoch, does not make the answer jump. The time before the share first grows says
/// nothing about the speed. Work that stands still has no end that anybody knows.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none; a share that falls is that of
/// other work. Units: times count from any moment.
class ShareMeter {
 public:
  /// From here on it has an answer: over less, a share tells nothing.
  static constexpr std::chrono::seconds kLeastTime{10};
  static constexpr int kLeastGrowths = 3;
  /// Work stands still that has not grown for this long, and for three times as long as it usually
  /// takes to grow.
  static constexpr std::chrono::seconds kStandsStill{10};

  /// The share that is done, 0 to 1; nullopt: it is not known.
  void Take(std::optional<double> share, std::chrono::milliseconds now);
  /// How long the rest will take, as far as that is known.
  std::optional<std::chrono::duration<double>> Left() const;

 private:
  using Seconds = std::chrono::duration<double>;

  std::optional<double> share_;
  std::chrono::milliseconds last_{0};
  bool has_begun_ = false;
  // Since then:
  Seconds observed_{0};
  Seconds grown_last_{0};  // of what was observed
  int growths_ = 0;
  // Sums in which what was counts ever less.
  double grown_ = 0;
  Seconds time_{0};
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_HISTORY_SHARE_METER_H_
