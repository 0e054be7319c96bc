#include "simulation/world/scenario.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "base/format.h"
#include "simulation/world/random.h"

namespace tfos::simulation {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::array<std::string_view, 9> kFaultNames = {"is killed",
                                                         "vanishes",
                                                         "falls silent",
                                                         "freezes",
                                                         "is parted from the coordinator",
                                                         "can't be reached",
                                                         "returns",
                                                         "raises an error",
                                                         "everybody is stopped"};
constexpr std::array<std::string_view, 4> kRemainders = {"none", "join", "drop", "pad"};

void MakeFeed(Scenario& scenario, Random& random) {
  const int queues = random.Chance(25) ? 2 : 1;
  const int epochs = random.Between(1, 3);
  scenario.batch = random.Between(1, 4);
  scenario.chunk = random.Between(1, 6);
  scenario.ahead = random.Between(1, 4);
  for (int queue = 0; queue < queues; ++queue) {
    scenario.rows.emplace_back();
    for (int epoch = 0; epoch < epochs; ++epoch) {
      // None, hardly any, or more than nodes look ahead.
      constexpr std::array<int, 4> kMost = {0, 3, 12, 40};
      scenario.rows.back().push_back(random.Between(0, kMost[random.Next() % kMost.size()]));
    }
  }
  const int remainder = random.Between(1, 5);
  scenario.remainder = remainder == 4   ? feed::Remainder::kDrop
                       : remainder == 5 ? feed::Remainder::kPad
                                        : feed::Remainder::kJoin;
  if (random.Chance(35)) scenario.steps_per_pass = random.Between(1, 4);
  scenario.skewed = random.Chance(40);
  scenario.rough_way = random.Chance(30);
  scenario.coalesces = random.Chance(50);
}

Fault MakeFault(const Scenario& scenario, Random& random) {
  Fault fault;
  const int kind = random.Between(1, 100);
  fault.kind = kind <= 22   ? FaultKind::kKilled
               : kind <= 42 ? FaultKind::kVanishes
               : kind <= 52 ? FaultKind::kFallsSilent
               : kind <= 70 ? FaultKind::kFreezes
               : kind <= 86 ? FaultKind::kIsParted
               : kind <= 88 ? FaultKind::kUnreachable
               : kind <= 92 ? FaultKind::kReturns
               : kind <= 95 ? FaultKind::kRaises
                            : FaultKind::kStop;
  constexpr std::array<int, 4> kAfter = {40, 100, 200, 500};
  fault.after_events =
      static_cast<std::uint64_t>(random.Between(1, kAfter[random.Next() % kAfter.size()]));
  fault.node = random.Between(random.Chance(5) ? 0 : scenario.services, scenario.nodes() - 1);
  // Shorter than the coordinator waits for a heartbeat, or longer.
  fault.lasts = milliseconds(random.Between(1, random.Chance(50) ? 3'000 : 25'000));
  return fault;
}

}  // namespace

Scenario MakeScenario(std::uint64_t seed) {
  Random random(seed);
  Scenario scenario;
  scenario.seed = seed;
  scenario.services = random.Chance(15) ? 1 : 0;
  scenario.trainers = random.Between(1, random.Chance(70) ? 3 : 5);
  scenario.min_nodes = random.Between(1, random.Chance(50) ? 1 : scenario.trainers);
  scenario.late_nodes = random.Chance(60);
  if (scenario.late_nodes && random.Chance(80)) {
    scenario.min_nodes_timeout = milliseconds(random.Chance(50) ? 3'000 : 40'000);
  }
  scenario.relaunches = random.Chance(80);
  for (int node = 0; node < scenario.nodes(); ++node) {
    const int when = random.Between(1, 100);
    if (scenario.late_nodes && !scenario.is_service(node) && when <= 15) {
      scenario.comes.emplace_back(milliseconds(random.Between(10'000, 40'000)));
    } else if (when >= 99) {
      scenario.comes.emplace_back();
    } else {
      scenario.comes.emplace_back(milliseconds(random.Between(0, 100)));
    }
  }
  scenario.fed = random.Chance(70);
  scenario.steps = random.Between(0, 8);
  scenario.shares = random.Between(1, 2);
  if (scenario.fed) MakeFeed(scenario, random);
  constexpr std::array<int, 4> kDelays = {200, 5'000, 60'000, 600'000};
  scenario.message_delay = microseconds(kDelays[random.Next() % kDelays.size()]);
  scenario.step_delay = microseconds(kDelays[random.Next() % kDelays.size()]);
  const int faults = random.Between(0, 5);
  for (int fault = 0; fault < faults; ++fault) {
    scenario.faults.push_back(MakeFault(scenario, random));
  }
  std::ranges::stable_sort(scenario.faults, {}, &Fault::after_events);
  return scenario;
}

std::string Scenario::Describe() const {
  std::string text = fmt::format(
      "seed {}: {} trainers, {} services, at least {}, {}, {} ms for others to come; delays of {} "
      "and {}",
      seed, trainers, services, min_nodes, late_nodes ? "late nodes" : "no late nodes",
      min_nodes_timeout.count(), message_delay.count(), step_delay.count());
  if (!fed) text += fmt::format("; {} steps", steps);
  for (const std::vector<int>& epochs : rows) {
    text += "; a queue of";
    for (const int count : epochs) text += fmt::format(" {}", count);
    text += " rows";
  }
  if (fed) {
    text +=
        fmt::format("; batches of {}, chunks of {}, {} ahead, remainder {}, {} steps a pass{}{}{}",
                    batch, chunk, ahead, kRemainders[static_cast<std::size_t>(remainder)],
                    steps_per_pass, skewed ? ", skewed" : "", rough_way ? ", a rough way" : "",
                    coalesces ? ", grants coalesce" : "");
  }
  for (int node = 0; node < nodes(); ++node) {
    const auto& when = comes[static_cast<std::size_t>(node)];
    if (!when) {
      text += fmt::format("\n  node {} never comes", node);
    } else if (*when > milliseconds(1000)) {
      text += fmt::format("\n  node {} comes after {} ms", node, when->count());
    }
  }
  for (const Fault& fault : faults) {
    text += fmt::format("\n  after {} events node {} {}, for {} ms", fault.after_events, fault.node,
                        kFaultNames[static_cast<std::size_t>(fault.kind)], fault.lasts.count());
  }
  return text;
}

}  // namespace tfos::simulation
