#include "control/coordinator/roster/offices/step_ticket_office.h"

#include <algorithm>
#include <optional>

namespace tfos::control {
namespace {

struct Holding {
  int node_id = 0;
  std::int64_t rows = 0;
  std::int64_t passable = 0;
};

std::int64_t FullBatches(std::int64_t rows, std::int64_t batch) { return rows / batch; }
std::int64_t Batches(std::int64_t rows, std::int64_t batch) { return (rows + batch - 1) / batch; }

bool AsEvenAsCanBe(const std::vector<Holding>& holdings, std::int64_t all, std::int64_t batch) {
  const auto [least, most] = std::ranges::minmax(holdings, {}, &Holding::rows);
  const std::int64_t step = batch * static_cast<std::int64_t>(holdings.size());
  // With batches of one row, too, a node may have one more.
  return most.rows - least.rows < std::max<std::int64_t>(batch, 2) &&
         FullBatches(least.rows, batch) == FullBatches(all, step) &&
         Batches(most.rows, batch) == Batches(all, step);
}

/// Which nodes pass rows on to which, so that all hold as many as far as rows can be passed on.
/// Changes `holdings` accordingly.
std::vector<RowPass> EvenOut(std::vector<Holding>& holdings, std::int64_t batch) {
  std::vector<RowPass> passes;
  std::int64_t all = 0;
  for (const Holding& holding : holdings) all += holding.rows;
  if (AsEvenAsCanBe(holdings, all, batch)) return passes;
  // Those with most keep the odd rows.
  std::ranges::stable_sort(holdings, std::ranges::greater(), &Holding::rows);
  const auto nodes = static_cast<std::int64_t>(holdings.size());
  std::vector<std::int64_t> shares;
  for (std::int64_t i = 0; i < nodes; ++i)
    shares.push_back(all / nodes + (i < all % nodes ? 1 : 0));
  std::size_t to = holdings.size() - 1;
  for (std::size_t from = 0; from < to; ++from) {
    Holding& giver = holdings[from];
    std::int64_t left = std::min(giver.rows - shares[from], giver.passable);
    while (left > 0 && to > from) {
      Holding& taker = holdings[to];
      const std::int64_t rows = std::min(left, shares[to] - taker.rows);
      if (rows <= 0) {
        --to;
        continue;
      }
      passes.push_back(
          {.from = giver.node_id, .to = taker.node_id, .rows = rows, .address = {}, .feed = {}});
      giver.rows -= rows;
      taker.rows += rows;
      left -= rows;
    }
  }
  return passes;
}

}  // namespace

StepTickets StepTicketOffice::Decide(const Key& key, const Epoch& epoch,
                                     const Members& members) const {
  StepTickets tickets = epoch.told;
  tickets.queue = key.first;
  tickets.epoch = key.second;
  tickets.missing.clear();
  // What a node that has left was to pass on comes no more, unless it came before. And nobody need
  // try any longer to bring rows to a node that has left.
  std::erase_if(tickets.passes, [&](const RowPass& pass) {
    return !members.contains(pass.from) || !members.contains(pass.to);
  });
  if (tickets.final) return tickets;
  if (stopped_) {
    tickets.final = true;
    tickets.ending = false;
    tickets.longest = tickets.granted;  // Nodes that pad made no step beyond it, either.
    return tickets;
  }
  for (const auto& [node_id, name] : members) {
    if (!epoch.reports.contains(node_id)) tickets.missing.push_back(name);
  }
  std::optional<std::int64_t> least;
  std::vector<Holding> holdings;
  bool all_ended = true;
  bool may_pass = true;
  std::int64_t batch = 0;
  for (const auto& [node_id, report] : epoch.reports) {
    if (!report.ended && !members.contains(node_id)) continue;
    least = std::min(least.value_or(report.full_batches), report.full_batches);
    tickets.longest = std::max(tickets.longest, report.batches);
    tickets.ending = tickets.ending || report.ended;
    all_ended = all_ended && report.ended;
    // Batches of different sizes don't measure the rows.
    may_pass = may_pass && members.contains(node_id) && report.batch_rows > 0 &&
               (batch == 0 || batch == report.batch_rows);
    batch = report.batch_rows;
    holdings.push_back({node_id, report.rows, report.passable_rows});
  }
  if (!tickets.missing.empty()) return tickets;
  // A node that got its tickets may have begun those steps.
  tickets.granted = std::max(tickets.granted, least.value_or(0));
  if (!all_ended || holdings.empty()) return tickets;
  tickets.final = true;
  if (!may_pass) return tickets;
  tickets.passes = EvenOut(holdings, batch);
  const auto [fewest, most] = std::ranges::minmax(holdings, {}, &Holding::rows);
  tickets.granted = std::max(tickets.granted, FullBatches(fewest.rows, batch));
  tickets.longest = Batches(most.rows, batch);
  return tickets;
}

void StepTicketOffice::Update(const Key& key, Epoch& epoch, const Members& members,
                              std::vector<StepTickets>& changed) const {
  StepTickets tickets = Decide(key, epoch, members);
  if (tickets == epoch.told) return;
  epoch.told = tickets;
  changed.push_back(std::move(tickets));
}

bool StepTicketOffice::HasRoomFor(const StepReport& report) const {
  return epochs_.size() < kMostEpochs || epochs_.contains(Key(report.queue, report.epoch));
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

std::vector<StepTickets> StepTicketOffice::Stop(const Members& members) {
  stopped_ = true;
  return MembersChanged(members);
}

std::vector<StepTickets> StepTicketOffice::Look(const std::string& queue, int epoch, int number,
                                                const Members& members) {
  const Key key(queue, epoch);
  Epoch& known = epochs_[key];
  StepTickets tickets = Decide(key, known, members);
  tickets.look = number;
  known.told = tickets;
  return {std::move(tickets)};
}

bool StepTicketOffice::IsDrained(const std::string& queue, int epoch,
                                 const Members& members) const {
  const auto found = epochs_.find(Key(queue, epoch));
  if (found == epochs_.end()) return members.empty();
  const auto& [reports, told] = found->second;
  return std::ranges::all_of(members, [&](const auto& member) {
    const auto report = reports.find(member.first);
    return report != reports.end() && report->second.waits && report->second.looked == told.look &&
           report->second.made >= told.granted;
  });
}

void StepTicketOffice::EpochEnded(const std::string& queue, int epoch) {
  int& last = ended_.try_emplace(queue, epoch).first->second;
  last = std::max(last, epoch);
}

bool StepTicketOffice::IsLeft(const std::string& queue, const Members& members) const {
  return std::ranges::any_of(epochs_, [&](const auto& entry) {
    const auto& [key, known] = entry;
    const auto ended = ended_.find(key.first);
    if (key.first == queue || (ended != ended_.end() && key.second <= ended->second)) return false;
    return std::ranges::any_of(members, [&](const auto& member) {
      const auto report = known.reports.find(member.first);
      return report != known.reports.end() && report->second.waits;
    });
  });
}

bool StepTicketOffice::HasBegun(const std::string& queue, int epoch) const {
  return std::ranges::any_of(epochs_, [&](const auto& entry) {
    const auto& [key, known] = entry;
    return key.first == queue && key.second >= epoch && !known.reports.empty();
  });
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
