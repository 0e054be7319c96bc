#include "simulation/world/watch.h"

#include <algorithm>
#include <bit>
#include <ranges>
#include <utility>
#include <variant>

namespace tfos::simulation {
namespace {

constexpr std::uint64_t BitOf(int incarnation) { return std::uint64_t{1} << incarnation; }

std::string EpochText(const control::StepTickets& tickets) {
  return fmt::format("epoch {} of '{}'", tickets.epoch, tickets.queue);
}

}  // namespace

void Watch::Registered(int node_id, int incarnation) {
  reports_[static_cast<std::size_t>(node_id)].clear();
  ready_.erase(node_id);
  incarnation_of_[node_id] = incarnation;
}

void Watch::Heard(int node_id, const control::StepReport& report) {
  reports_[static_cast<std::size_t>(node_id)].insert_or_assign(Key(report.queue, report.epoch),
                                                               report);
  if (report.ended) ended_[Key(report.queue, report.epoch)].insert(node_id);
}

void Watch::Heard(int node_id, const control::GroupReady& ready) {
  ready_.insert_or_assign(node_id, ready);
  if (members_.contains(node_id)) committed_ = std::max(committed_, ready.committed);
}

void Watch::HearEndOfEpoch() {
  const bool anyone_waits = std::ranges::any_of(ready_, [this](const auto& ready) {
    return !members_.contains(ready.first) && !IsLost(incarnation_of_.at(ready.first));
  });
  expects_meet_ = std::exchange(closed_, false) && anyone_waits && !stopped_;
}

void Watch::Lose(int node_id) {
  ready_.erase(node_id);
  members_.erase(node_id);
  const auto incarnation = incarnation_of_.find(node_id);
  if (incarnation == incarnation_of_.end()) return;
  lost_at_.try_emplace(incarnation->second, scheduler_.events());
}

void Watch::Said(const control::Effects& effects, const control::Roster& roster) {
  std::map<Key, std::pair<const control::StepTickets*, std::set<int>>> granted;
  std::map<int, std::pair<const control::FormedGroup*, std::set<int>>> groups;
  const auto check_groups = [&] {
    for (const auto& [generation, what] : std::exchange(groups, {})) {
      Check(*what.first, what.second, roster);
    }
  };
  for (const control::Effect& effect : effects) {
    if (const auto* tell = std::get_if<control::TellDriver>(&effect)) {
      if (const auto* node = std::get_if<control::NodeChanged>(&tell->event)) {
        if (node->node.state != control::NodeState::kLost) continue;
        check_groups();  // As things were when they were formed.
        Lose(node->node.node_id);
      } else if (std::holds_alternative<control::ClusterFailed>(tell->event)) {
        if (std::exchange(failed_, true)) Break("a second failure is reported");
        stopped_ = true;
      } else if (std::holds_alternative<control::Finished>(tell->event)) {
        if (std::exchange(finished_, true)) Break("it finishes a second time");
      } else if (std::holds_alternative<control::EpochBegins>(tell->event)) {
        check_groups();
        closed_ = true;
      } else if (const auto* drained = std::get_if<control::EpochDrained>(&tell->event)) {
        drained_number_ = drained->number;
        for (auto& [key, epoch] : epochs_) {
          if (!epoch.ended) epoch.drained_at = scheduler_.events();
        }
      }
    } else if (const auto* start = std::get_if<control::PublishStart>(&effect)) {
      if (start->node_id) continue;
      if (std::exchange(formed_, true)) Break("the cluster forms a second time");
      for (int id = scenario_.services; id < scenario_.nodes(); ++id) {
        if (roster.StateOf(id) == control::NodeState::kRegistered) members_.insert(id);
      }
      began_with_ = static_cast<int>(members_.size());
    } else if (const auto* tell_agent = std::get_if<control::TellAgent>(&effect)) {
      const auto& command = tell_agent->command;
      if (const auto* tickets = std::get_if<control::StepTickets>(&command)) {
        if (stopped_) Break("steps are granted after the end");
        auto& [last, told] = granted[Key(tickets->queue, tickets->epoch)];
        if (last != nullptr && told.contains(tell_agent->node_id)) {
          Check(*last, told);  // Of two that follow each other at once.
          told.clear();
        }
        last = tickets;
        told.insert(tell_agent->node_id);
      } else if (const auto* group = std::get_if<control::FormedGroup>(&command)) {
        if (stopped_) Break("a group is formed after the end");
        expects_meet_ = false;
        auto& [last, told] = groups[group->generation];
        last = group;
        told.insert(tell_agent->node_id);
      } else if (const auto* regroup = std::get_if<control::Regroup>(&command)) {
        if (stopped_) Break("a regroup after the end");
        if (regroup->generation < opened_ || regroup->generation > opened_ + 1) {
          Break(fmt::format("regroup {} follows {}", regroup->generation, opened_));
        }
        opened_ = regroup->generation;
      } else if (std::holds_alternative<control::Meet>(command)) {
        if (stopped_) Break("members are asked to meet after the end");
        expects_meet_ = false;
      } else if (std::holds_alternative<control::EndEpoch>(command)) {
        if (expects_meet_ && IsTraining(tell_agent->node_id, roster)) {
          Break(fmt::format("node {} hears of an epoch's end before it is asked to meet",
                            tell_agent->node_id));
        }
      }
    }
  }
  for (const auto& [key, what] : granted) Check(*what.first, what.second);
  check_groups();
}

bool Watch::IsTraining(int node_id, const control::Roster& roster) const {
  const auto ready = ready_.find(node_id);
  const bool has_left = ready != ready_.end() && ready->second.leaves;
  return members_.contains(node_id) && !has_left && !control::IsFinal(roster.StateOf(node_id));
}

void Watch::Check(const control::StepTickets& tickets, const std::set<int>& told) {
  const Key key(tickets.queue, tickets.epoch);
  const auto known = granted_.find(key);
  const control::StepTickets before =
      known == granted_.end() ? control::StepTickets() : known->second;
  granted_.insert_or_assign(key, tickets);
  if (tickets.granted < before.granted) {
    Break(fmt::format("the grant of {} shrinks from {} to {}", EpochText(tickets), before.granted,
                      tickets.granted));
  }
  if (before.final && (!tickets.final || tickets.granted != before.granted)) {
    Break(fmt::format("the grant of {} changes after it was final", EpochText(tickets)));
  }
  if (tickets.look < before.look) Break("a look goes back");
  const bool grows = tickets.granted > before.granted || (tickets.final && !before.final);
  if (!grows) return;
  if (feed_stopped_) {
    // What was granted was found good then, and all end with it.
    if (tickets.granted > before.granted) {
      Break(fmt::format("steps of {} are granted after the feed was stopped", EpochText(tickets)));
    }
    if (tickets.ending || tickets.longest != tickets.granted || !tickets.passes.empty()) {
      Break(fmt::format("not all end {} after the same step", EpochText(tickets)));
    }
    return;
  }
  for (const int node : told) {
    const auto& reports = reports_[static_cast<std::size_t>(node)];
    const auto report = reports.find(key);
    if (report == reports.end()) {
      Break(fmt::format("{} steps of {} are granted, and node {} has not reported", tickets.granted,
                        EpochText(tickets), node));
      return;
    }
    if (tickets.final && !report->second.ended) {
      Break(fmt::format("the grant of {} is final, and node {} has not ended", EpochText(tickets),
                        node));
    }
    if (!tickets.final && report->second.full_batches < tickets.granted) {
      Break(fmt::format("{} steps of {} are granted, and node {} has rows for {}", tickets.granted,
                        EpochText(tickets), node, report->second.full_batches));
    }
  }
  if (tickets.final) CheckPasses(tickets, told);
}

void Watch::CheckPasses(const control::StepTickets& tickets, const std::set<int>& told) {
  const Key key(tickets.queue, tickets.epoch);
  std::map<int, std::int64_t> rows;
  std::map<int, std::int64_t> given;
  bool all_passable = true;
  for (const int node : told) {
    const control::StepReport& report = reports_[static_cast<std::size_t>(node)].at(key);
    rows[node] = report.rows;
    // What can't be passed on is less than a batch.
    all_passable = all_passable && report.batch_rows == scenario_.batch;
  }
  for (const control::RowPass& pass : tickets.passes) {
    if (!rows.contains(pass.from) || !rows.contains(pass.to) || pass.rows <= 0) {
      Break(fmt::format("{} rows of {} pass from node {} to {}", pass.rows, EpochText(tickets),
                        pass.from, pass.to));
      return;
    }
    rows[pass.from] -= pass.rows;
    rows[pass.to] += pass.rows;
    given[pass.from] += pass.rows;
  }
  for (const auto& [node, count] : given) {
    if (count > reports_[static_cast<std::size_t>(node)].at(key).passable_rows) {
      Break(fmt::format("node {} is to pass on {} rows of {}, and can't", node, count,
                        EpochText(tickets)));
    }
  }
  if (!all_passable || rows.empty()) return;
  ++planned_evenly_;
  const auto [least, most] = std::ranges::minmax(std::views::values(rows));
  for (const auto& [node, count] : rows) {
    if (count / scenario_.batch < tickets.granted) {
      Break(fmt::format("{} steps of {} are granted, and node {} will have {} rows",
                        tickets.granted, EpochText(tickets), node, count));
    }
  }
  // The report of a node that has left binds the others, and it can't take part in passing on.
  const bool all_there = std::ranges::includes(told, ended_[key]);
  if (all_there && most - least >= std::max(scenario_.batch, 2)) {
    Break(fmt::format("nodes end {} with {} to {} rows", EpochText(tickets), least, most));
  }
}

void Watch::Check(const control::FormedGroup& group, const std::set<int>& told,
                  const control::Roster& roster) {
  std::set<int> members;
  for (const control::GroupMember& member : group.members) {
    members.insert(member.rank + scenario_.services);
  }
  if (members != told) Break(fmt::format("not all of group {} are told", group.generation));
  if (group.generation <= formed_group_) Break("a generation is formed twice");
  formed_group_ = group.generation;
  ++groups_;
  for (const int id : members) {
    const auto ready = ready_.find(id);
    if (ready == ready_.end()) {
      Break(fmt::format("node {} is in group {} and was not ready", id, group.generation));
      return;
    }
    const bool is_new = !members_.contains(id);
    if (is_new) ++came_late_;
    if (is_new && closed_) Break(fmt::format("newcomer {} is let in during an epoch", id));
    if (is_new && !group.admits) {
      Break(
          fmt::format("newcomer {} is in group {}, which does not admit it", id, group.generation));
    }
    if (!is_new && ready->second.generation != group.generation) {
      Break(fmt::format("node {} is in group {} and was ready for {}", id, group.generation,
                        ready->second.generation));
    }
    if (!is_new && group.admits && !ready->second.admits) {
      Break(fmt::format("group {} admits, and node {} was in a step", group.generation, id));
    }
  }
  for (const int id : members_) {
    if (!members.contains(id) && IsTraining(id, roster)) {
      Break(fmt::format("group {} is formed without node {}", group.generation, id));
    }
  }
  if (group.committed != committed_) {
    Break(fmt::format("group {} says that {} were committed, and {} were", group.generation,
                      group.committed, committed_));
  }
  members_.insert(members.begin(), members.end());
  if (group.admits && !closed_ && static_cast<int>(members_.size()) < scenario_.min_nodes) {
    Break(fmt::format("{} members go on, and do not wait for others", members_.size()));
  }
}

void Watch::Returned(int incarnation, std::int64_t transaction, const Result& result) {
  returned_[incarnation][transaction] = result;
  if (IsLost(incarnation)) return;
  for (const auto& [other, results] : returned_) {
    if (other == incarnation || IsLost(other)) continue;
    const auto theirs = results.find(transaction);
    if (theirs != results.end() && theirs->second != result) {
      Break(fmt::format("survivors differ in transaction {}: {} of {:b}, and {} of {:b}",
                        transaction, result.deed.Text(), result.contributors,
                        theirs->second.deed.Text(), theirs->second.contributors));
    }
  }
}

Watch::Fate& Watch::FateOf(int queue, int epoch, int row) {
  std::vector<Fate>& rows = epochs_[{queue, epoch}].rows;
  if (rows.size() <= static_cast<std::size_t>(row)) rows.resize(static_cast<std::size_t>(row) + 1);
  return rows[static_cast<std::size_t>(row)];
}

void Watch::Took(int incarnation, int queue, int epoch, const std::vector<int>& rows) {
  for (const int row : rows) FateOf(queue, epoch, row).took |= BitOf(incarnation);
}

void Watch::Used(int incarnation, int queue, int epoch, const std::vector<int>& rows,
                 bool trained) {
  // What is fed again after a loss may come from a node that has returned, and can't be asked.
  const bool may_repeat = returned_early() && !lost_at_.empty();
  for (const int row : rows) {
    Fate& fate = FateOf(queue, epoch, row);
    for (int other = 0; other < 64; ++other) {
      if (((fate.trained | fate.dropped) & BitOf(other)) == 0) continue;
      if (may_repeat || IsLost(other) || IsLost(incarnation)) continue;
      Break(fmt::format("row {} of epoch {} of queue {} comes to incarnations {} and {}", row,
                        epoch, queue, other, incarnation));
    }
    (trained ? fate.trained : fate.dropped) |= BitOf(incarnation);
  }
}

void Watch::EpochEnded(int queue, int epoch, bool drained) {
  Epoch& known = epochs_[{queue, epoch}];
  known.ended = true;
  known.drained = drained;
}

void Watch::CheckRows() {
  // Nobody brings again what others may have got of such a node.
  if (returned_early() && !lost_at_.empty()) return;
  for (const auto& [key, epoch] : epochs_) {
    const auto [queue, number] = key;
    if (!epoch.drained || !epoch.drained_at) continue;
    const auto fed = static_cast<std::size_t>(
        scenario_.rows[static_cast<std::size_t>(queue)][static_cast<std::size_t>(number)]);
    for (std::size_t row = 0; row < fed; ++row) {
      const Fate fate = row < epoch.rows.size() ? epoch.rows[row] : Fate();
      Mask good = fate.trained | fate.dropped;
      for (const auto& [incarnation, at] : lost_at_) {
        // Up to the last batches: once the end is told, nothing is fed again.
        if (at > *epoch.drained_at) good |= fate.took & BitOf(incarnation);
        if (at <= *epoch.drained_at) good &= ~BitOf(incarnation);
      }
      // Nor does anybody feed on what a node does not want any more.
      good |= fate.took & returned_early_;
      const bool came = fate.took != 0 || !returned_early();
      if (good == 0 && came) {
        Break(fmt::format("row {} of epoch {} of queue {} is lost: taken by {:b}, trained by {:b}",
                          row, number, queue, fate.took, fate.trained));
      }
    }
    if (!returned_early()) CheckEvenness(queue, number, epoch);
  }
}

void Watch::CheckEvenness(int queue, int number, const Epoch& epoch) {
  if (!lost_at_.empty() || came_late_ > 0 || began_with_ < scenario_.trainers) return;
  ++ended_evenly_;
  std::map<int, int> rows;
  int dropped = 0;
  for (const auto& [id, incarnation] : incarnation_of_) {
    if (!scenario_.is_service(id)) rows[incarnation] = 0;
  }
  for (const Fate& fate : epoch.rows) {
    if (fate.trained != 0) ++rows[std::countr_zero(fate.trained)];
    if (fate.dropped != 0) ++dropped;
  }
  const auto [least, most] = std::ranges::minmax(std::views::values(rows));
  if (scenario_.remainder != feed::Remainder::kDrop &&
      most - least >= std::max(scenario_.batch, 2)) {
    Break(fmt::format("nodes have trained on {} to {} rows of epoch {} of queue {}", least, most,
                      number, queue));
  }
  if (scenario_.remainder == feed::Remainder::kDrop
          ? dropped >= scenario_.trainers * scenario_.batch
          : dropped > 0) {
    Break(fmt::format("{} rows of epoch {} of queue {} are dropped", dropped, number, queue));
  }
}

}  // namespace tfos::simulation
