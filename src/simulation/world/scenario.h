#ifndef TFOS_SIMULATION_WORLD_SCENARIO_H_
#define TFOS_SIMULATION_WORLD_SCENARIO_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "feed/read/steps/epoch_steps.h"

namespace tfos::simulation {

/// What happens to a node, or to all.
enum class FaultKind {
  kKilled,       ///< Its process: the agent reports it, and leaves.
  kVanishes,     ///< With its host: the connection ends.
  kFallsSilent,  ///< Likewise, but nobody hears of the end.
  kFreezes,      ///< It and its agent stand still for a while.
  kIsParted,     ///< From the coordinator, for a while. It goes on with the other nodes.
  kUnreachable,  ///< Other nodes can't connect with it from now on.
  kReturns,      ///< Its program, early.
  kRaises,       ///< Its program fails.
  kStop,         ///< The user has the cluster stopped: its feed first, or all at once.
};

struct Fault {
  FaultKind kind = FaultKind::kKilled;
  std::uint64_t after_events = 0;
  int node = 0;
  std::chrono::milliseconds lasts{0};
};

/// A cluster, its program and what befalls it. All of it follows from the seed.
struct Scenario {
  std::uint64_t seed = 0;
  int services = 0;
  int trainers = 1;
  int min_nodes = 1;
  bool late_nodes = false;
  std::chrono::milliseconds min_nodes_timeout{0};
  /// When each node comes first; none: never.
  std::vector<std::optional<std::chrono::milliseconds>> comes;
  bool relaunches = true;  ///< Spark starts another attempt of a node that is lost.

  bool fed = false;
  int steps = 1;   ///< Of a program that is not fed.
  int shares = 1;  ///< Transactions that give newcomers the state, without the last one.

  std::vector<std::vector<int>> rows;  ///< By queue and epoch.
  int batch = 1;
  int chunk = 1;  ///< Rows at most.
  int ahead = 4;  ///< Batches that a node looks ahead.
  feed::Remainder remainder = feed::Remainder::kJoin;
  int steps_per_pass = 0;  ///< Of each pass over a queue; 0: to the end of its epoch.
  bool skewed = false;     ///< One node gets most rows.
  bool rough_way =
      false;  ///< Some tries to pass rows on fail, or nobody hears that they succeeded.
  bool coalesces = false;  ///< A grant that was not sent yet is replaced by the next one.

  std::chrono::microseconds message_delay{1};  ///< At most.
  std::chrono::microseconds step_delay{1};     ///< At most.
  std::vector<Fault> faults;

  int nodes() const { return services + trainers; }
  bool is_service(int node_id) const { return node_id < services; }
  std::string Describe() const;
};

Scenario MakeScenario(std::uint64_t seed);

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_WORLD_SCENARIO_H_
