#include "control/page/viewers.h"

#include <algorithm>

#include "base/text/query.h"

namespace tfos::control {

bool Viewers::IsName(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !name.empty() && name.size() <= kMostNameBytes && std::ranges::all_of(name, fits);
}

std::string_view Viewers::NameIn(std::string_view query) {
  while (!query.empty()) {
    std::string_view value = TakeUntil('&', query);
    if (TakeUntil('=', value) == "page" && IsName(value)) return value;
  }
  return "";
}

Viewers::Look Viewers::Begin(std::string_view page, Part part, Clock::Duration interval,
                             Clock::TimePoint now) {
  auto known = viewers_.find(page);
  if (known == viewers_.end()) {
    std::erase_if(viewers_, [&](const auto& entry) { return now > entry.second.awaited_until; });
    if (viewers_.size() < kMost) known = viewers_.emplace(page, Viewer{}).first;
  }
  if (known != viewers_.end()) known->second.awaited_until = now + interval + kLate;
  return {.page = std::string(page), .part = part, .of_end = ends_};
}

void Viewers::End(const Look& look) {
  const auto known = viewers_.find(look.page);
  if (known == viewers_.end() || !look.of_end) return;
  (look.part == Part::kStatus ? known->second.has_status : known->second.has_history) = true;
}

void Viewers::BeginEnd() { ends_ = true; }

bool Viewers::AllHaveTheEnd(Clock::TimePoint now) const {
  return std::ranges::all_of(viewers_, [&](const auto& entry) {
    return now > entry.second.awaited_until || entry.second.HasTheEnd();
  });
}

Clock::Duration Viewers::LongestWait(Clock::TimePoint now) const {
  Clock::Duration longest{};
  for (const auto& [page, viewer] : viewers_) {
    if (!viewer.HasTheEnd()) longest = std::max(longest, viewer.awaited_until - now);
  }
  return longest;
}

}  // namespace tfos::control
