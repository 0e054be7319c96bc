#include "control/host/child_output.h"

#include <fcntl.h>
#include <signal.h>

#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <string>
#include <utility>

#include "base/format.h"

namespace tfos::control {

namespace asio = boost::asio;

Status ChildOutput::Start(SubprocessOptions options) {
  const std::string name = options.argv.front();
  options.capture_output = true;
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process, Subprocess::Start(options));
  UniqueFd ended(::fcntl(process->pidfd(), F_DUPFD_CLOEXEC, 0));
  if (!ended.valid()) return Status::FromErrno(errno, "watch " + name);
  boost::system::error_code error;
  ended_.assign(ended.get(), error);
  if (error) return Status::FromErrno(error.value(), "watch " + name);
  ended.Release();
  output_.assign(process->output().get(), error);
  if (error) {
    boost::system::error_code ignored;
    ended_.close(ignored);
    return Status::FromErrno(error.value(), "read from " + name);
  }
  process->output().Release();
  process_ = std::move(process);
  exit_.reset();
  output_ended_ = false;
  Read();
  AwaitEnd();
  return Status::Ok();
}

void ChildOutput::Kill() {
  if (process_ != nullptr) process_->SignalGroup(SIGKILL);
}

void ChildOutput::Read() {
  output_.async_read_some(asio::buffer(buffer_),
                          [this](const boost::system::error_code& error, std::size_t got) {
                            if (got > 0) on_bytes_({buffer_.data(), got});
                            if (!error) return Read();
                            output_ended_ = true;
                            LookForEnd();
                          });
}

void ChildOutput::AwaitEnd() {
  ended_.async_wait(asio::posix::stream_descriptor::wait_read,
                    [this](const boost::system::error_code& error) {
                      if (error) return;
                      exit_ = process_->TryReap();
                      if (!exit_.has_value()) return AwaitEnd();
                      LookForEnd();
                    });
}

void ChildOutput::LookForEnd() {
  if (!output_ended_ || !exit_.has_value()) return;
  boost::system::error_code ignored;
  output_.close(ignored);
  ended_.close(ignored);
  process_.reset();
  on_end_(ExitStatus(*exit_));  // A copy: it may start the next one.
}

}  // namespace tfos::control
