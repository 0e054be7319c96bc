#ifndef TFOS_CONTROL_HOST_CHILD_OUTPUT_H_
#define TFOS_CONTROL_HOST_CHILD_OUTPUT_H_

#include <sys/types.h>

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "base/process/subprocess.h"
#include "tfos/status.h"

namespace tfos::control {

/// A helper process whose output is read as it comes, and which can be killed meanwhile. Where only
/// all of its output is wanted, RunCaptured is simpler.
///
/// Owner and lifetime: the object owns the process, which also ends with the thread that has
/// started it, however that ends. The executor must not run any more once the object is destroyed.
/// Threads: those of one single-threaded executor, which it never blocks.
class ChildOutput {
 public:
  using OnBytes = std::function<void(std::string_view bytes)>;
  using OnEnd = std::function<void(const ExitStatus& exit)>;

  /// `on_end`: once for each start, when all output was read and the process was reaped. It may
  /// start the next one.
  ChildOutput(const boost::asio::any_io_executor& executor, OnBytes on_bytes, OnEnd on_end)
      : on_bytes_(std::move(on_bytes)),
        on_end_(std::move(on_end)),
        output_(executor),
        ended_(executor) {}

  /// Call it where none runs. Errors: the process could not be started or watched, and none runs.
  Status Start(SubprocessOptions options);

  /// Does not wait for its end. Nothing happens where none runs.
  void Kill();

  /// Zero where none runs.
  pid_t pid() const { return process_ == nullptr ? 0 : process_->pid(); }
  bool runs() const { return process_ != nullptr; }

 private:
  void Read();
  void AwaitEnd();
  void LookForEnd();

  const OnBytes on_bytes_;
  const OnEnd on_end_;
  std::unique_ptr<Subprocess> process_;
  boost::asio::posix::stream_descriptor output_;
  boost::asio::posix::stream_descriptor ended_;
  std::array<char, 16384> buffer_;
  std::optional<ExitStatus> exit_;
  bool output_ended_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_CHILD_OUTPUT_H_
