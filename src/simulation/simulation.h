#ifndef TFOS_SIMULATION_SIMULATION_H_
#define TFOS_SIMULATION_SIMULATION_H_

#include <cstdint>
#include <string>

namespace tfos::simulation {

/// How a run has ended.
struct Outcome {
  std::string violation;  ///< The promise that was broken; empty: none.
  std::string trace;      ///< If it was wanted.
  bool failed = false;    ///< The cluster has, with a reason.
  bool stopped = false;   ///< Somebody has asked for that.
  int losses = 0;
  int groups = 0;          ///< That were formed after the first.
  int came_late = 0;       ///< Nodes that were let in.
  int ended_evenly = 0;    ///< Epochs of which the rows of each node were compared,
  int planned_evenly = 0;  ///< and what the coordinator has each end with.
  std::uint64_t events = 0;
};

/// Runs a cluster from its start to its end, by a seed.
Outcome Simulate(std::uint64_t seed, bool trace);

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_SIMULATION_H_
