#include "control/agent/child/output_log.h"

#include <algorithm>

namespace tfos::control {
namespace {

/// Where the last `lines` lines of `text` begin. The last one's end may be missing.
std::size_t StartOfLast(std::string_view text, std::size_t lines) {
  std::size_t start = text.size();
  for (std::size_t found = 0; found < lines && start > 0; ++found) {
    // A line feed in front of `start` ends the line that is looked for.
    const std::size_t feed = start < 2 ? std::string_view::npos : text.rfind('\n', start - 2);
    start = feed == std::string_view::npos ? 0 : feed + 1;
  }
  return start;
}

}  // namespace

void OutputLog::Add(std::string_view text) {
  kept_ += text;
  if (kept_.size() <= kKeptBytes + kKeptBytes / 4) return;
  const std::size_t surplus = kept_.size() - kKeptBytes;
  kept_.erase(0, surplus);
  begin_ += static_cast<std::int64_t>(surplus);
}

OutputLog::Piece OutputLog::After(std::int64_t position, std::size_t most_bytes) const {
  const std::int64_t from = std::clamp(position, begin_, end());
  std::string_view text = std::string_view(kept_).substr(static_cast<std::size_t>(from - begin_));
  if (text.size() > most_bytes) {
    const std::size_t feed = text.rfind('\n', most_bytes - 1);
    text = text.substr(0, feed == std::string_view::npos ? most_bytes : feed + 1);
  }
  return {.from = from, .text = text};
}

OutputLog::Piece OutputLog::Last(std::size_t lines, std::size_t most_bytes) const {
  const std::string_view all = kept_;
  const std::size_t least = all.size() - std::min(all.size(), most_bytes);
  const std::size_t start = std::max(StartOfLast(all, lines), least);
  return {.from = begin_ + static_cast<std::int64_t>(start), .text = all.substr(start)};
}

std::vector<std::string> OutputLog::LastLines() const {
  std::vector<std::string> lines;
  std::string_view text = Last(kMaxLines, kKeptBytes).text;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, std::min(end, kMaxLineBytes)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace tfos::control
