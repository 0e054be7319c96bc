#include "feed/node/session/memory_grants.h"

#include <algorithm>

namespace tfos::feed {

void MemoryGrants::Forget(std::uint64_t session) {
  std::erase_if(waiting_, [&](const Request& request) { return request.session == session; });
}

std::vector<std::uint64_t> MemoryGrants::ForgetOpening() {
  std::vector<std::uint64_t> sessions;
  std::erase_if(waiting_, [&](const Request& request) {
    if (!request.growing) sessions.push_back(request.session);
    return !request.growing;
  });
  return sessions;
}

std::optional<MemoryGrants::Request> MemoryGrants::Grant(
    const std::function<bool(std::uint64_t session)>& comes_first) {
  const auto next = std::ranges::find_if(waiting_, [&](const Request& request) {
    const bool fits = in_use_ == 0 || request.bytes <= spare();
    return (&request == &waiting_.front() && fits) ||
           (request.growing && comes_first(request.session));
  });
  if (next == waiting_.end()) return std::nullopt;
  const Request request = *next;
  waiting_.erase(next);
  in_use_ += request.bytes;
  return request;
}

}  // namespace tfos::feed
