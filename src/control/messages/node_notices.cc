#include "control/messages/node_notices.h"

#include <string_view>

namespace tfos::control {
namespace {

/// The longest beginning of `text`, which is UTF-8, that has `most` bytes and whole characters.
std::string_view BeginningOf(std::string_view text, std::size_t most) {
  if (text.size() <= most) return text;
  const auto continues = [&](std::size_t at) {
    return (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80U;
  };
  while (most > 0 && continues(most)) --most;
  return text.substr(0, most);
}

}  // namespace

void NodeNotices::Add(const NodeLeaving& notice) {
  if (notice.reason.empty()) {
    reasons_.erase(notice.node_id);
    return;
  }
  if (reasons_.size() >= kMost && !reasons_.contains(notice.node_id)) return;
  reasons_[notice.node_id] = BeginningOf(notice.reason, kLongestText);
}

void NodeNotices::Add(const NodeMoved& notice) {
  if (moved_.size() >= kMost && !moved_.contains(notice.node_id)) return;
  NodeMoved& kept = moved_[notice.node_id] = notice;
  kept.name = BeginningOf(notice.name, kLongestText);
  kept.address = BeginningOf(notice.address, kLongestText);
}

}  // namespace tfos::control
