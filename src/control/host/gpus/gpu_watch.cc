#include "control/host/gpus/gpu_watch.h"

#include <fcntl.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/logging.h"

namespace tfos::control {

namespace asio = boost::asio;

void GpuWatch::Start(const std::vector<std::string>& indices) {
  if (indices.empty()) return;
  gpus_ = fmt::format("{}", fmt::join(indices, ", "));
  const Status begun = Begin(indices);
  if (begun.ok()) return;
  if (begun.code().value() == ENOENT) {
    LogInfo("the usage of GPU {} is not shown: nvidia-smi was not found", gpus_);
  } else {
    LogWarning("the usage of GPU {} is not shown: {}", gpus_, begun.ToString());
  }
}

Status GpuWatch::Begin(const std::vector<std::string>& indices) {
  SubprocessOptions options;
  options.argv = GpuUsageReader::Command(indices);
  options.capture_output = true;
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process, Subprocess::Start(options));
  UniqueFd ended(::fcntl(process->pidfd(), F_DUPFD_CLOEXEC, 0));
  if (!ended.valid()) return Status::FromErrno(errno, "watch nvidia-smi");
  boost::system::error_code error;
  ended_.assign(ended.get(), error);
  if (error) return Status::FromErrno(error.value(), "watch nvidia-smi");
  ended.Release();
  output_.assign(process->output().get(), error);
  if (error) return Status::FromErrno(error.value(), "read from nvidia-smi");
  process->output().Release();
  process_ = std::move(process);
  reader_.emplace(indices.size());
  Read();
  AwaitEnd();
  return Status::Ok();
}

void GpuWatch::Stop() {
  reader_.reset();
  if (process_ != nullptr) process_->SignalGroup(SIGKILL);
}

std::optional<GpuUsage> GpuWatch::usage() const {
  return reader_.has_value() ? reader_->Latest(Clock::Steady().Now()) : std::nullopt;
}

void GpuWatch::Read() {
  output_.async_read_some(asio::buffer(buffer_),
                          [this](const boost::system::error_code& error, std::size_t got) {
                            output_ended_ = static_cast<bool>(error);
                            if (!error && reader_.has_value()) Take({buffer_.data(), got});
                            if (output_ended_) OnEnd();
                            if (!output_ended_ && reader_.has_value()) Read();
                          });
}

void GpuWatch::AwaitEnd() {
  ended_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (error) return;
                      exit_ = process_->TryReap();
                      if (exit_.has_value()) {
                        OnEnd();
                      } else {
                        AwaitEnd();
                      }
                    });
}

void GpuWatch::OnEnd() {
  // Its last words may say why it has ended.
  if (!output_ended_ || !exit_.has_value() || !reader_.has_value()) return;
  GiveUp("nvidia-smi " + exit_->Describe());
}

void GpuWatch::Take(std::string_view bytes) {
  if (const Status read = reader_->Add(bytes, Clock::Steady().Now()); !read.ok()) {
    GiveUp(read.ToString());
  }
}

void GpuWatch::GiveUp(const std::string& why) {
  LogWarning("the usage of GPU {} is not shown any more: {}", gpus_, why);
  Stop();
}

}  // namespace tfos::control
