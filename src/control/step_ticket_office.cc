#include "control/step_ticket_office.h"

#include <algorithm>
#include <optional>

namespace tfos::control {
namespace {

/// A node may still read the epoch before the one that another one reports on.
constexpr int kEpochsRemembered = 2;

}  // namespace

StepTickets StepTicketOffice::Decide(const Key& key, const Epoch& epoch, const Members& members) {
  StepTickets tickets{.queue = key.first, .epoch = key.second, .missing = {}};
  std::optional<std::int64_t> least;
  bool all_ended = true;
  for (const auto& [node_id, name] : members) {
    const auto found = epoch.reports.find(node_id);
    if (found == epoch.reports.end()) {
      tickets.missing.push_back(name);
      continue;
    }
    const StepReport& report = found->second;
    least = std::min(least.value_or(report.full_batches), report.full_batches);
    tickets.longest = std::max(tickets.longest, report.batches);
    all_ended = all_ended && report.ended;
  }
  if (tickets.missing.empty()) {
    tickets.granted = least.value_or(0);
    tickets.closed = all_ended;
  }
  // A node that got its tickets may have begun those steps.
  tickets.granted = std::max(tickets.granted, epoch.told.granted);
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
  ForgetBefore(key);
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

void StepTicketOffice::ForgetBefore(const Key& key) {
  std::erase_if(epochs_, [&](const auto& entry) {
    return entry.first.first == key.first && entry.first.second + kEpochsRemembered <= key.second;
  });
}

}  // namespace tfos::control
