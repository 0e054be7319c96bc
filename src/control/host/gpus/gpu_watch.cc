#include "control/host/gpus/gpu_watch.h"

#include <fmt/ranges.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/logging.h"

namespace tfos::control {

void GpuWatch::Start(const std::vector<std::string>& indices) {
  if (indices.empty()) return;
  gpus_ = fmt::format("{}", fmt::join(indices, ", "));
  reader_.emplace(indices.size());
  const Status begun = child_.Start({.argv = GpuUsageReader::Command(indices)});
  if (begun.ok()) return;
  reader_.reset();
  if (begun.code().value() == ENOENT) {
    LogInfo("the usage of GPU {} is not shown: nvidia-smi was not found", gpus_);
  } else {
    LogWarning("the usage of GPU {} is not shown: {}", gpus_, begun.ToString());
  }
}

void GpuWatch::Stop() {
  reader_.reset();
  child_.Kill();
}

std::optional<GpuUsage> GpuWatch::usage() const {
  return reader_.has_value() ? reader_->Latest(Clock::Steady().Now()) : std::nullopt;
}

void GpuWatch::Take(std::string_view bytes) {
  if (!reader_.has_value()) return;
  if (const Status read = reader_->Add(bytes, Clock::Steady().Now()); !read.ok()) {
    GiveUp(read.ToString());
  }
}

void GpuWatch::OnEnd(const ExitStatus& exit) {
  // Its last words may have said why it has ended.
  if (reader_.has_value()) GiveUp("nvidia-smi " + exit.Describe());
}

void GpuWatch::GiveUp(const std::string& why) {
  LogWarning("the usage of GPU {} is not shown any more: {}", gpus_, why);
  Stop();
}

}  // namespace tfos::control
