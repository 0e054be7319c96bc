#include "control/agent/answers/native_calls.h"

#include <fcntl.h>
#include <signal.h>

#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace tfos::control {

namespace asio = boost::asio;

namespace {

std::string WhyNone(std::string_view why) {
  return fmt::format("no native calls of threads: {}\n", why);
}

}  // namespace

void NativeCalls::Ask(pid_t pid) {
  if (process_ != nullptr) return;
  if (const Status begun = Begin(pid); !begun.ok()) on_text_(WhyNone(begun.ToString()));
}

Status NativeCalls::Begin(pid_t pid) {
  if (command_.empty()) {
    return Status(ErrorKind::kUnsupported, "this agent has no command that finds them");
  }
  SubprocessOptions options{.argv = command_, .capture_output = true};
  options.argv.push_back(std::to_string(pid));
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process, Subprocess::Start(options));
  UniqueFd ended(::fcntl(process->pidfd(), F_DUPFD_CLOEXEC, 0));
  if (!ended.valid()) return Status::FromErrno(errno, "watch the command for native calls");
  boost::system::error_code error;
  ended_.assign(ended.get(), error);
  if (error) return Status::FromErrno(error.value(), "watch the command for native calls");
  ended.Release();
  output_.assign(process->output().get(), error);
  if (error) {
    ended_.close(error);
    return Status(ErrorKind::kNoResources, "the output of the command can't be read");
  }
  process->output().Release();
  process_ = std::move(process);
  text_.clear();
  exit_.reset();
  output_ended_ = late_ = false;
  limit_.expires_after(patience_);
  limit_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled || process_ == nullptr) return;
    late_ = true;
    Stop();
  });
  Read();
  AwaitEnd();
  return Status::Ok();
}

void NativeCalls::Stop() {
  if (process_ != nullptr) process_->SignalGroup(SIGKILL);
}

void NativeCalls::Read() {
  output_.async_read_some(asio::buffer(buffer_),
                          [this](const boost::system::error_code& error, std::size_t got) {
                            text_.append(buffer_.data(), got);
                            if (text_.size() > kMostBytes) Stop();
                            output_ended_ = static_cast<bool>(error);
                            if (output_ended_) {
                              OnEnd();
                            } else {
                              Read();
                            }
                          });
}

void NativeCalls::AwaitEnd() {
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

void NativeCalls::OnEnd() {
  if (!output_ended_ || !exit_.has_value()) return;
  limit_.cancel();
  boost::system::error_code ignored;
  output_.close(ignored);
  ended_.close(ignored);
  process_.reset();
  std::string text = std::move(text_);
  if (late_) {
    text = WhyNone(fmt::format("they were not found within {} ms", patience_.count()));
  } else if (!exit_->success() || text.size() > kMostBytes) {
    text = WhyNone(fmt::format("the command that finds them {}", exit_->Describe()));
  }
  on_text_(std::move(text));
}

}  // namespace tfos::control
