#ifndef TFOS_CONTROL_HOST_GPUS_GPU_WATCH_H_
#define TFOS_CONTROL_HOST_GPUS_GPU_WATCH_H_

#include <sys/types.h>

#include <boost/asio/any_io_executor.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/subprocess.h"
#include "control/host/child_output.h"
#include "control/host/gpus/gpu_usage.h"

namespace tfos::control {

/// Watches what the GPUs of a node are busy with: one `nvidia-smi` that goes on printing it.
///
/// Owner and lifetime: the object owns the process, which also ends with the thread that has
/// started it, however that ends. The executor must not run any more once the object is destroyed.
/// Threads: those of one single-threaded executor, which it never blocks.
/// Errors: none; the usage is not known any more, and the log says why, once.
class GpuWatch {
 public:
  explicit GpuWatch(const boost::asio::any_io_executor& executor)
      : child_(
            executor, [this](std::string_view bytes) { Take(bytes); },
            [this](const ExitStatus& exit) { OnEnd(exit); }) {}

  /// Begins to watch these GPUs; without any, nothing happens. Call it once. `indices`: as
  /// CUDA_VISIBLE_DEVICES takes them.
  void Start(const std::vector<std::string>& indices);

  /// Kills the process, and does not wait for its end. Nothing happens where there is none.
  void Stop();

  /// The latest one. nullopt where nothing is known, or not any more.
  std::optional<GpuUsage> usage() const;

  /// Zero before it starts, and once it was reaped.
  pid_t pid() const { return child_.pid(); }

 private:
  void Take(std::string_view bytes);
  void OnEnd(const ExitStatus& exit);
  void GiveUp(const std::string& why);

  std::string gpus_;  // for people
  ChildOutput child_;
  std::optional<GpuUsageReader> reader_;  // as long as its answers are wanted
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_GPUS_GPU_WATCH_H_
