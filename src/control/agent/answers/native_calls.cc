#include "control/agent/answers/native_calls.h"

#include <boost/system/error_code.hpp>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace tfos::control {

namespace {

std::string WhyNone(std::string_view why) {
  return fmt::format("no native calls of threads: {}\n", why);
}

}  // namespace

NativeCalls::NativeCalls(const boost::asio::any_io_executor& executor,
                         std::vector<std::string> command, OnText on_text,
                         std::chrono::milliseconds patience)
    : command_(std::move(command)),
      on_text_(std::move(on_text)),
      patience_(patience),
      child_(
          executor,
          [this](std::string_view bytes) {
            text_ += bytes;
            if (text_.size() > kMostBytes) Stop();
          },
          [this](const ExitStatus& exit) { OnEnd(exit); }),
      limit_(executor) {}

void NativeCalls::Ask(pid_t pid) {
  if (child_.runs()) return;
  if (const Status begun = Begin(pid); !begun.ok()) on_text_(WhyNone(begun.ToString()));
}

Status NativeCalls::Begin(pid_t pid) {
  if (command_.empty()) {
    return Status(ErrorKind::kUnsupported, "this agent has no command that finds them");
  }
  SubprocessOptions options{.argv = command_};
  options.argv.push_back(std::to_string(pid));
  text_.clear();
  late_ = false;
  TFOS_RETURN_IF_ERROR(child_.Start(std::move(options)));
  limit_.expires_after(patience_);
  limit_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled || !child_.runs()) return;
    late_ = true;
    Stop();
  });
  return Status::Ok();
}

void NativeCalls::OnEnd(const ExitStatus& exit) {
  limit_.cancel();
  std::string text = std::move(text_);
  if (late_) {
    text = WhyNone(fmt::format("they were not found within {} ms", patience_.count()));
  } else if (!exit.success() || text.size() > kMostBytes) {
    text = WhyNone(fmt::format("the command that finds them {}", exit.Describe()));
  }
  on_text_(std::move(text));
}

}  // namespace tfos::control
