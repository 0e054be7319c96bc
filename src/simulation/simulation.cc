#include "simulation/simulation.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "simulation/driver.h"
#include "simulation/node/node.h"

namespace tfos::simulation {
namespace {

/// After the last fault, and long after each timeout of the protocol, nobody waits any more.
constexpr std::chrono::minutes kBound{40};
constexpr std::uint64_t kMostEvents = 400'000;
/// Watch has a bit for each.
constexpr std::size_t kMostIncarnations = 64;
constexpr int kMostAttempts = 8;  // of a node

class Simulation final : public Neighbours {
 public:
  Simulation(const Scenario& scenario, bool trace)
      : scenario_(scenario),
        random_(scenario.seed ^ 0x5eed),
        trace_(trace, scheduler_),
        watch_(scenario_, scheduler_),
        mesh_([this](int generation) { WakeMembers(generation); },
              [this](std::string what) { watch_.Break(std::move(what)); }),
        coordinator_(scenario_, scheduler_, random_, trace_, watch_,
                     [this](const control::CoordinatorEvent& event) { driver_.On(event); }),
        driver_(scenario_, scheduler_, random_, trace_, watch_, coordinator_,
                [this](int incarnation) { return Find(incarnation); }),
        attempts_(static_cast<std::size_t>(scenario_.nodes()), 0) {
    for (int id = 0; id < scenario_.nodes(); ++id) {
      const auto& when = scenario_.comes[static_cast<std::size_t>(id)];
      if (when) scheduler_.After(*when + milliseconds(1), [this, id] { Launch(id); });
    }
  }

  Outcome Run() {
    std::size_t faults = 0;
    Scheduler::TimePoint bound = scheduler_.now() + kBound;
    while (watch_.violation().empty() && !driver_.is_over()) {
      while (faults < scenario_.faults.size() &&
             scheduler_.events() >= scenario_.faults[faults].after_events) {
        Befall(scenario_.faults[faults++]);
        bound = scheduler_.now() + kBound;
      }
      scheduler_.RunNext();
      if (const auto number = watch_.TakeDrained()) CheckDrained(*number);
      if (scheduler_.now() > bound || scheduler_.events() > kMostEvents) {
        watch_.Break("it does not come to an end");
      }
    }
    if (watch_.violation().empty() && !driver_.has_failed() && !driver_.was_stopped()) {
      watch_.CheckRows();
    }
    return OutcomeNow();
  }

  Node* FindFeed(const std::string& socket) override {
    int incarnation = -1;
    if (socket.size() > 1) {
      std::from_chars(socket.data() + 1, socket.data() + socket.size(), incarnation);
    }
    return incarnation < 0 ? nullptr : Find(incarnation);
  }

  void OnDead(Node& node) override {
    WakeMembers(node.generation());
    const int id = node.node_id();
    if (!scenario_.relaunches || attempts_[static_cast<std::size_t>(id)] >= kMostAttempts) return;
    const int most = node.is_refused() ? 10'000 : random_.Chance(50) ? 300 : 20'000;
    scheduler_.After(milliseconds(random_.Between(1, most)), [this, id] { Launch(id); });
  }

 private:
  Node* Find(int incarnation) { return nodes_[static_cast<std::size_t>(incarnation)].get(); }

  /// Spark starts an attempt of a launch task, which may be one too many.
  void Launch(int node_id) {
    if (coordinator_.stopped() || nodes_.size() == kMostIncarnations) return;
    if (control::NodeState state = coordinator_.roster().StateOf(node_id);
        state == control::NodeState::kDone || state == control::NodeState::kStopped) {
      return;
    }
    ++attempts_[static_cast<std::size_t>(node_id)];
    const auto incarnation = static_cast<int>(nodes_.size());
    trace_.Note("node {} is launched as {}", node_id, incarnation);
    nodes_.push_back(std::make_unique<Node>(
        Node::World{scenario_, scheduler_, random_, trace_, watch_, mesh_, coordinator_, *this},
        node_id, incarnation));
  }

  void WakeMembers(int generation) {
    for (const auto& node : nodes_) {
      if (node->generation() == generation) node->Wake();
    }
  }

  /// No node can make another step, though not all have heard that yet.
  void CheckDrained(int number) {
    const bool may_leave = scenario_.rows.size() > 1 && scenario_.steps_per_pass > 0;
    if (may_leave || watch_.returned_early() || coordinator_.stopped()) return;
    if (!driver_.Awaits(number)) return;  // It feeds again, as a node was lost.
    std::uint64_t least = kMostEvents;
    std::uint64_t made = kMostEvents;
    for (const int id : watch_.members()) {
      const Reader& reader = Find(watch_.IncarnationOf(id))->reader(driver_.queue());
      if (reader.epoch() != driver_.epoch()) return;  // It was asked about an earlier one.
      least = std::min(least, reader.full_batches());
      made = std::min(made, reader.made());
    }
    if (made < least) {
      watch_.Break(fmt::format("it is drained, and nodes have made {} of {} steps", made, least));
    }
  }

  void Befall(const Fault& fault) {
    if (fault.kind == FaultKind::kStop) return driver_.Stop();
    Node* victim = nullptr;
    for (const auto& node : nodes_) {
      if (node->node_id() == fault.node && !node->is_dead()) victim = node.get();
    }
    if (victim == nullptr) return;
    trace_.Note("fault {} befalls {} (node {})", static_cast<int>(fault.kind),
                victim->incarnation(), fault.node);
    switch (fault.kind) {
      case FaultKind::kKilled:
        return victim->Die(Node::Death::kReported);
      case FaultKind::kVanishes:
        return victim->Die(Node::Death::kWithHost);
      case FaultKind::kFallsSilent:
        return victim->Die(Node::Death::kSilent);
      case FaultKind::kFreezes:
        return victim->Freeze(fault.lasts);
      case FaultKind::kIsParted:
        return victim->PartFromCoordinator(fault.lasts);
      case FaultKind::kUnreachable:
        return mesh_.Part(fault.node);
      case FaultKind::kReturns:
        return victim->Return();
      case FaultKind::kRaises:
        return victim->Raise();
      case FaultKind::kStop:
        return;
    }
  }

  Outcome OutcomeNow() {
    Outcome outcome{.violation = watch_.violation(),
                    .trace = {},
                    .failed = driver_.has_failed(),
                    .stopped = driver_.was_stopped(),
                    .losses = watch_.losses(),
                    .groups = watch_.groups(),
                    .came_late = watch_.came_late(),
                    .ended_evenly = watch_.ended_evenly(),
                    .planned_evenly = watch_.planned_evenly(),
                    .events = scheduler_.events()};
    if (!trace_.enabled()) return outcome;
    outcome.trace = scenario_.Describe() + "\n" + trace_.Text() + driver_.Describe() + "\n";
    for (const auto& node : nodes_) outcome.trace += node->Describe() + "\n";
    return outcome;
  }

  const Scenario scenario_;
  Scheduler scheduler_;
  Random random_;
  Trace trace_;
  Watch watch_;
  Mesh mesh_;
  SimulatedCoordinator coordinator_;
  Driver driver_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<int> attempts_;
};

}  // namespace

Outcome Simulate(std::uint64_t seed, bool trace) {
  return Simulation(MakeScenario(seed), trace).Run();
}

}  // namespace tfos::simulation
