#include "simulation/node/node.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "node/step_messages.h"

namespace tfos::simulation {
namespace {

constexpr seconds kBeat{2};
/// An agent that has said the last of its node closes the connection.
constexpr milliseconds kLastWords{1};
constexpr milliseconds kRetry{200};

std::string SocketOf(int incarnation) { return fmt::format("i{}", incarnation); }

}  // namespace

Node::Node(World world, int node_id, int incarnation)
    : world_(world),
      node_id_(node_id),
      incarnation_(incarnation),
      is_service_(world.scenario.is_service(node_id)),
      connection_(world_.coordinator.Open(node_id, incarnation, [this](Connection::Down command) {
        OnCommand(std::move(command));
      })) {
  tickets_.TellWaits();
  tickets_.SetSender([this](const feed::StepReport& report) {
    Say(node::MessageOf(report));
    return Status::Ok();
  });
  for (std::size_t queue = 0; queue < world_.scenario.rows.size(); ++queue) {
    const auto number = static_cast<int>(queue);
    readers_.push_back(std::make_unique<Reader>(
        Reader::Options{.node_id = node_id,
                        .queue = number,
                        .pass = [this, number](const Reader::Pass& pass) { Bring(number, pass); }},
        world_.scenario, tickets_, world_.random));
  }
  control::Register registration;
  registration.node_id = node_id;
  registration.host = fmt::format("h{}", incarnation);
  registration.address = "10.0.0.1";
  Say(registration);
  Beat();
}

void Node::Say(control::AgentMessage message) {
  if (life_ != Life::kDead) connection_.up->Send(std::move(message));
}

void Node::Beat() {
  if (is_dead()) return;
  if (!is_frozen()) Say(control::Heartbeat{});
  world_.scheduler.After(kBeat, [this] { Beat(); });
}

void Node::Wake() {
  if (wakes_ || is_dead()) return;
  wakes_ = true;
  const auto most = static_cast<int>(world_.scenario.step_delay.count());
  world_.scheduler.After(microseconds(world_.random.Between(1, most)), [this] {
    wakes_ = false;
    Advance();
  });
}

void Node::Advance() {
  if (is_dead() || program_ == nullptr || told_to_stop_) return;
  if (is_frozen()) {
    wakes_ = true;
    world_.scheduler.After(frozen_until_ - world_.scheduler.now(), [this] {
      wakes_ = false;
      Wake();
    });
    return;
  }
  const Program::Step step = program_->Advance();
  if (step == Program::Step::kWaits) return;
  if (step == Program::Step::kMoved) return Wake();
  OnProgramEnd(step);
}

void Node::OnProgramEnd(Program::Step end) {
  if (end == Program::Step::kReturned) {
    if (world_.scenario.fed) {
      wants_no_rows_ = true;
      for (const auto& each : readers_) each->Terminate();
      Say(control::FeedTerminated{});
    }
    return Wake();
  }
  if (end == Program::Step::kFailed) {
    world_.trace.Note("{} (node {}): its program fails: {}", incarnation_, node_id_,
                      member_->end());
    return Raise();
  }
  Say(control::Done{});
  Die(Death::kInOrder);
}

void Node::OnCommand(Connection::Down command) {
  if (is_dead()) return;
  if (!command) return Die(Death::kSilent);  // An agent that loses its coordinator ends its node.
  if (const auto* start = std::get_if<control::StartNode>(&*command)) return OnStart(*start);
  if (std::holds_alternative<control::Refused>(*command)) {
    refused_ = true;
    return Die(Death::kInOrder);
  }
  if (std::holds_alternative<control::Stop>(*command)) return OnStop();
  if (const auto* regroup = std::get_if<control::Regroup>(&*command)) {
    regroup_ = *regroup;
    if (member_ != nullptr) member_->On(*regroup);
  } else if (const auto* group = std::get_if<control::FormedGroup>(&*command)) {
    group_ = *group;
    if (member_ != nullptr) member_->On(*group);
  } else if (const auto* none = std::get_if<control::NoGroup>(&*command)) {
    none_ = *none;
    if (member_ != nullptr) member_->On(*none);
  } else if (std::holds_alternative<control::Meet>(*command)) {
    meet_ = true;
    if (member_ != nullptr) member_->OnMeet();
  } else if (const auto* tickets = std::get_if<control::StepTickets>(&*command)) {
    tickets_.OnGrant(node::GrantOf(*tickets));
  } else if (const auto* ended = std::get_if<control::EndEpoch>(&*command)) {
    for (std::size_t queue = 0; queue < readers_.size(); ++queue) {
      if (Reader::NameOf(static_cast<int>(queue)) == ended->queue) {
        readers_[queue]->EndEpoch(ended->epoch);
      }
    }
  } else if (const auto* feed = std::get_if<control::EndFeed>(&*command)) {
    for (const auto& each : readers_) each->EndFeed(feed->at_once);
  }
  Wake();
}

void Node::OnStart(const control::StartNode& start) {
  const auto most = static_cast<int>(world_.scenario.step_delay.count());
  world_.scheduler.After(microseconds(world_.random.Between(1, 10 * most)),
                         [this, start] { Run(start); });
}

void Node::Run(const control::StartNode& start) {
  if (is_dead() || told_to_stop_) return;
  life_ = Life::kRunning;
  control::StateReport running;
  running.state = control::NodeState::kRunning;
  if (world_.scenario.fed) {
    running.feed = control::FeedEndpoint{.socket = SocketOf(incarnation_), .port = 1};
  }
  Say(running);
  if (is_service_) return;
  MakeMember(start);
  program_ = std::make_unique<Program>(world_.scenario, incarnation_, start.joins, *member_,
                                       readers_, world_.watch);
  Wake();
}

void Node::MakeMember(const control::StartNode& start) {
  NodeMask members = 0;
  for (const control::NodeInfo& node : start.nodes) {
    if (node.rank >= 0 && node.state == control::NodeState::kRegistered) {
      members |= MaskOf(node.node_id);
    }
  }
  member_ = std::make_unique<Member>(
      Member::Options{.node_id = node_id_,
                      .joins = start.joins,
                      .members = members,
                      .first_trainer = world_.scenario.services,
                      .send = [this](const control::GroupReady& ready) { Say(ready); },
                      .wake_later = [this] { Wake(); },
                      .broken = [this](std::string what) { world_.watch.Break(std::move(what)); }},
      world_.mesh, world_.scheduler, world_.random);
  if (regroup_) member_->On(*regroup_);
  if (group_) member_->On(*group_);
  if (none_) member_->On(*none_);
  if (meet_) member_->OnMeet();
}

void Node::OnStop() {
  if (std::exchange(told_to_stop_, true)) return;
  // TERM: it ends by itself within a moment.
  const auto most = static_cast<int>(world_.scenario.step_delay.count());
  world_.scheduler.After(microseconds(world_.random.Between(1, 10 * most)), [this] {
    Say(control::Done{});
    Die(Death::kInOrder);
  });
}

void Node::Accept(int queue, int epoch, int chunk, const std::vector<int>& rows) {
  if (wants_no_rows_) return;
  own(queue).Accept(epoch, chunk, rows);
  world_.watch.Took(incarnation_, queue, epoch, rows);
  Wake();
}

void Node::TakePassed(int queue, int from, const Reader::Pass& pass) {
  own(queue).TakePassed(from, pass);
  world_.watch.Took(incarnation_, queue, pass.epoch, pass.rows);
  Wake();
}

void Node::OnPassed(int queue, bool arrived) {
  if (is_dead()) return;
  own(queue).OnPassed(arrived);
  Wake();
}

void Node::Bring(int queue, const Reader::Pass& pass) {
  const Scenario& scenario = world_.scenario;
  const bool is_rough = scenario.rough_way && world_.random.Chance(30);
  // A node that has got the rows of the last epoch leaves: whether they had arrived nobody could
  // say.
  const bool is_last =
      pass.epoch + 1 >= static_cast<int>(scenario.rows[static_cast<std::size_t>(queue)].size());
  const bool nobody_leaves = std::ranges::none_of(
      scenario.faults, [](const Fault& fault) { return fault.kind == FaultKind::kReturns; });
  const bool arrives = !is_rough || (!is_last && nobody_leaves && world_.random.Chance(50));
  const auto most = static_cast<int>(scenario.message_delay.count());
  world_.scheduler.After(microseconds(world_.random.Between(1, most)),
                         [this, queue, pass, arrives, is_rough] {
                           Arrive(queue, pass, arrives, /*is_heard=*/!is_rough);
                         });
}

void Node::Arrive(int queue, const Reader::Pass& pass, bool arrives, bool is_heard) {
  Node* const to = world_.neighbours.FindFeed(pass.to.unix_name);
  const bool is_there = to != nullptr && !to->is_dead();
  if (is_there && to->is_frozen()) {
    world_.scheduler.After(
        kRetry, [this, queue, pass, arrives, is_heard] { Arrive(queue, pass, arrives, is_heard); });
    return;
  }
  const bool is_wanted = is_there && !to->wants_no_rows_;
  world_.trace.Note("{} (node {}) passes {} rows to {}: {}", incarnation_, node_id_,
                    pass.rows.size(), pass.to.unix_name,
                    !is_there    ? "it is gone"
                    : !is_wanted ? "it wants no more rows"
                    : !arrives   ? "they do not arrive"
                                 : "they arrive");
  if (is_wanted && arrives) to->TakePassed(queue, node_id_, pass);
  const auto most = static_cast<int>(world_.scenario.message_delay.count());
  world_.scheduler.After(microseconds(world_.random.Between(1, most)),
                         [this, queue, heard = is_wanted && is_heard] { OnPassed(queue, heard); });
}

void Node::Die(Death death) {
  if (is_dead()) return;
  world_.trace.Note("{} (node {}) ends", incarnation_, node_id_);
  if (death == Death::kReported) {
    control::FailureMessage failed;
    failed.failure = {.step = "run the node",
                      .message = "the node's process was killed by signal 9",
                      .traceback = {},
                      .log_tail = {},
                      .lost = true};
    Say(failed);
  }
  life_ = Life::kDead;
  if (death == Death::kWithHost || death == Death::kSilent) connection_.up->LoseSome();
  if (death != Death::kSilent) {
    world_.scheduler.After(kLastWords, [this] { connection_.up->Send(std::nullopt); });
  }
  if (member_ != nullptr) member_->Die();
  world_.neighbours.OnDead(*this);
}

void Node::Freeze(milliseconds lasts) {
  frozen_until_ = std::max(frozen_until_, world_.scheduler.now() + lasts);
  connection_.down->Stall(frozen_until_);
}

void Node::PartFromCoordinator(milliseconds lasts) {
  const auto until = world_.scheduler.now() + lasts;
  connection_.down->Stall(until);
  connection_.up->Stall(until);
}

void Node::Return() {
  if (program_ == nullptr) return;
  world_.watch.ReturnedEarly(incarnation_);
  program_->ReturnEarly();
  Wake();
}

void Node::Raise() {
  if (is_dead()) return;
  control::FailureMessage failed;
  failed.failure = {.step = "run map_fun",
                    .message = "ValueError",
                    .traceback = {},
                    .log_tail = {},
                    .lost = false};
  Say(failed);
  Die(Death::kInOrder);
}

std::string Node::Describe() const {
  std::string text = fmt::format("{} (node {}): ", incarnation_, node_id_);
  if (is_dead()) return text + "has ended";
  if (is_frozen()) text += "frozen, ";
  if (program_ == nullptr) return text + "runs no program";
  text += fmt::format("{}; {}", program_->Describe(), member_->Describe());
  for (const auto& each : readers_) text += "; " + each->Describe();
  return text;
}

}  // namespace tfos::simulation
