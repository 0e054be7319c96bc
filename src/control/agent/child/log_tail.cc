#include "control/agent/child/log_tail.h"

#include <algorithm>

namespace tfos::control {

void LogTail::Add(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines_.emplace_back(text.substr(0, std::min(end, kMaxLineBytes)));
    if (lines_.size() > kMaxLines) lines_.pop_front();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

}  // namespace tfos::control
