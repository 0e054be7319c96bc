#include "parameter_server/model/link_pushes.h"

#include <algorithm>

namespace tfos::parameter_server {

void GoneLinks::Put(std::uint64_t link, const LinkPushes& pushes) {
  static_cast<void>(Take(link));
  if (links_.size() == kMost) links_.pop_front();
  links_.emplace_back(link, pushes);
}

LinkPushes GoneLinks::Take(std::uint64_t link) {
  const auto found = std::ranges::find(links_, link, [](const auto& entry) { return entry.first; });
  if (found == links_.end()) return {};
  const LinkPushes pushes = found->second;
  links_.erase(found);
  return pushes;
}

}  // namespace tfos::parameter_server
