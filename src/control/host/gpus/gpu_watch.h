#ifndef TFOS_CONTROL_HOST_GPUS_GPU_WATCH_H_
#define TFOS_CONTROL_HOST_GPUS_GPU_WATCH_H_

#include <sys/types.h>

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/subprocess.h"
#include "control/host/gpus/gpu_usage.h"
#include "tfos/status.h"

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
      : output_(executor), ended_(executor) {}

  /// Begins to watch these GPUs; without any, nothing happens. Call it once. `indices`: as
  /// CUDA_VISIBLE_DEVICES takes them.
  void Start(const std::vector<std::string>& indices);

  /// Kills the process, and does not wait for its end. Nothing happens where there is none.
  void Stop();

  /// The latest one. nullopt where nothing is known, or not any more.
  std::optional<GpuUsage> usage() const;

  /// Zero before it starts, and once it was reaped.
  pid_t pid() const { return process_ == nullptr ? 0 : process_->pid(); }

 private:
  Status Begin(const std::vector<std::string>& indices);
  void Read();
  void AwaitEnd();
  /// Its process or its output has ended.
  void OnEnd();
  void Take(std::string_view bytes);
  void GiveUp(const std::string& why);

  std::string gpus_;  // for people
  std::unique_ptr<Subprocess> process_;
  boost::asio::posix::stream_descriptor output_;
  boost::asio::posix::stream_descriptor ended_;
  std::array<char, 4096> buffer_;
  std::optional<GpuUsageReader> reader_;  // as long as its answers are wanted
  std::optional<ExitStatus> exit_;
  bool output_ended_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_GPUS_GPU_WATCH_H_
