#ifndef TFOS_CONTROL_HOST_GPUS_GPU_USAGE_H_
#define TFOS_CONTROL_HOST_GPUS_GPU_USAGE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/line_buffer.h"
#include "base/time/deadline.h"
#include "tfos/status.h"

namespace tfos::control {

/// What some GPUs are busy with. It is of the whole devices: other processes count, too.
struct GpuUsage {
  /// The share of the time in which a GPU computes, 0 to 1: their mean. nullopt where one of them
  /// does not tell it.
  std::optional<double> utilization;
  /// What is in use of their memory, all together. nullopt where one of them does not tell it.
  std::optional<std::int64_t> memory_bytes;
};

/// Reads what `nvidia-smi` prints when it is asked for the usage of GPUs again and again.
///
/// Owner and lifetime: a value. Threads: one at a time.
/// Errors: a line that nobody understands is bad input, and so is everything after it.
class GpuUsageReader {
 public:
  /// Between two answers.
  static constexpr std::chrono::seconds kInterval{2};
  /// An answer says nothing about later times: a driver that stands still gives no new ones.
  static constexpr std::chrono::seconds kFreshFor{10};

  /// `gpus`: of how many GPUs each answer is.
  explicit GpuUsageReader(std::size_t gpus);

  /// The program and its arguments that ask for these GPUs. `indices`: as CUDA_VISIBLE_DEVICES
  /// takes them.
  static std::vector<std::string> Command(const std::vector<std::string>& indices);

  /// Takes what the program has printed until `now`: any piece of it.
  Status Add(std::string_view bytes, Clock::TimePoint now);

  /// The latest answer that is whole. nullopt before the first one, once an answer is too old, and
  /// after an error.
  std::optional<GpuUsage> Latest(Clock::TimePoint now) const;

 private:
  Status AddLine(std::string_view line, Clock::TimePoint now);

  std::size_t gpus_;
  LineBuffer lines_;
  Status broken_;
  std::map<std::string, GpuUsage, std::less<>> answer_;  // by index, as far as it has come
  GpuUsage latest_;
  Clock::TimePoint fresh_until_{};
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_GPUS_GPU_USAGE_H_
