#include "collective/operation/timeline.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/logging.h"

namespace tfos::collective {
namespace {

constexpr std::string_view kEnd = "\n]}\n";

double Microseconds(std::chrono::nanoseconds duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

/// `text` as a JSON string. Bytes that are not ASCII stay: names are UTF-8.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

}  // namespace

Result<std::unique_ptr<Timeline>> Timeline::Create(const std::string& path,
                                                   const std::string& member, std::uint32_t rank,
                                                   const std::string& transport) {
  // The name can be guessed: what others have put there is replaced, never written through. The
  // user may let others read it.
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return Status::FromErrno(errno, fmt::format("replace the timeline {}", path));
  }
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid()) return Status::FromErrno(errno, fmt::format("write the timeline {}", path));
  std::unique_ptr<Timeline> timeline(new Timeline(std::move(fd), path, rank));
  TFOS_RETURN_IF_ERROR(timeline->Append(
      fmt::format(R"({{"displayTimeUnit":"ms","traceEvents":[)"
                  "\n"
                  R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":{1}}}}},)"
                  "\n"
                  R"({{"ph":"M","name":"process_labels","pid":{0},"args":{{"labels":{2}}}}})",
                  rank, Quoted(member), Quoted(transport))));
  return timeline;
}

Status Timeline::Append(const std::string& text) {
  std::string rest = text;
  rest += kEnd;
  std::size_t at = bytes_;
  std::string_view left = rest;
  while (!left.empty()) {
    const ssize_t written = ::pwrite(fd_.get(), left.data(), left.size(), static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Status::FromErrno(errno, fmt::format("write the timeline {}", path_));
    left.remove_prefix(static_cast<std::size_t>(written));
    at += static_cast<std::size_t>(written);
  }
  bytes_ += text.size();
  return {};
}

void Timeline::Add(const Event& event) {
  if (!fd_.valid()) return;
  const double begin = Microseconds(event.begin.time_since_epoch());
  const std::string of_whom = fmt::format(R"("ph":"X","pid":{},"tid":0)", rank_);
  std::string text = fmt::format(
      ",\n"
      R"({{"name":{},"cat":"collective",{},"ts":{:.3f},"dur":{:.3f},)"
      R"("args":{{"operation":{},"bytes":{},"wait_us":{:.3f},"transfer_us":{:.3f},"failed":{}}}}})",
      Quoted(event.operation.Describe()), of_whom, begin, Microseconds(event.duration),
      event.operation.number, event.bytes, Microseconds(event.waited),
      Microseconds(event.duration - event.waited), event.failed);
  if (event.waited.count() > 0) {
    text += fmt::format(
        ",\n"
        R"({{"name":"wait","cat":"collective",{},"ts":{:.3f},"dur":{:.3f}}})",
        of_whom, begin, Microseconds(event.waited));
  }
  if (const Status written = Append(text); !written.ok()) {
    LogWarning("The timeline ends here: {}", written.ToString());
    fd_.Reset();
  }
}

}  // namespace tfos::collective
