#include "control/coordinator/step_ticket_office.h"

#include <algorithm>
#include <optional>

namespace tfos::control {
StepTickets StepTicketOffice::Decide(const Key& key, const Epoch& epoch, const Members& members) {
  StepTickets tickets{.queue = key.first, .epoch = key.second, .missing = {}};
  for (const auto& [node_id, name] : members) {
    if (!epoch.reports.contains(node_id)) tickets.missing.push_back(name);
  }
  std::optional<std::int64_t> least;
  std::optional<std::int64_t> least_of_ended;
  bool all_ended = true;
  const auto take = [](std::optional<std::int64_t>& to, std::int64_t value) {
    to = std::min(to.value_or(value), value);
  };
  for (const auto& [node_id, report] : epoch.reports) {
    if (!report.ended && !members.contains(node_id)) continue;
    take(least, report.full_batches);
    if (report.ended) take(least_of_ended, report.full_batches);
    tickets.longest = std::max(tickets.longest, report.batches);
    all_ended = all_ended && report.ended;
  }
  // A node that got its tickets may have begun those steps.
  tickets.granted = epoch.told.granted;
  tickets.longest = std::max(tickets.longest, epoch.told.longest);
  if (tickets.missing.empty()) {
    if (!epoch.told.final) tickets.granted = std::max(tickets.granted, least.value_or(0));
    tickets.final = least_of_ended.has_value() && *least_of_ended <= tickets.granted;
    tickets.closed = all_ended;
  }
  tickets.final = tickets.final || epoch.told.final;
  return tickets;
}

void StepTicketOffice::Update(const Key& key, Epoch& epoch, const Members& members,
                              std::vector<StepTickets>& changed) {
  StepTickets tickets = Decide(key, epoch, members);
  if (tickets == epoch.told) return;
  epoch.told = tickets;
  changed.push_back(std::move(tickets));
}

std::vector<StepTickets> StepTicketOffice::Report(int node_id, const StepReport& report,
                                                  const Members& members) {
  const Key key(report.queue, report.epoch);
  ForgetBefore(report.queue, members);
  Epoch& epoch = epochs_[key];
  epoch.reports.insert_or_assign(node_id, report);
  std::vector<StepTickets> changed;
  Update(key, epoch, members, changed);
  return changed;
}

std::vector<StepTickets> StepTicketOffice::MembersChanged(const Members& members) {
  std::vector<StepTickets> changed;
  for (auto& [key, epoch] : epochs_) Update(key, epoch, members, changed);
  return changed;
}

void StepTicketOffice::ForgetBefore(const std::string& queue, const Members& members) {
  std::optional<int> everyone_is_at;
  for (const auto& [node_id, name] : members) {
    std::optional<int> latest;
    for (const auto& [key, epoch] : epochs_) {
      if (key.first == queue && epoch.reports.contains(node_id)) latest = key.second;
    }
    if (!latest) return;
    everyone_is_at = std::min(everyone_is_at.value_or(*latest), *latest);
  }
  std::erase_if(epochs_, [&](const auto& entry) {
    return entry.first.first == queue && entry.first.second < everyone_is_at;
  });
}

}  // namespace tfos::control
