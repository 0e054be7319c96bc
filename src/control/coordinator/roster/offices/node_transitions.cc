#include "control/coordinator/roster/offices/node_transitions.h"

#include <array>
#include <cstddef>

namespace tfos::control {
namespace {

constexpr unsigned Bit(NodeState state) { return 1u << static_cast<unsigned>(state); }

// Where each state may go, in the order of NodeState.
constexpr std::array<unsigned, kNodeStates> kTransitions = {
    // expected
    Bit(NodeState::kRegistered) | Bit(NodeState::kLost),
    // starting: a word of agents and nodes only, before they register or run
    0,
    // registered
    Bit(NodeState::kRunning) | Bit(NodeState::kDraining) | Bit(NodeState::kDone) |
        Bit(NodeState::kFailed) | Bit(NodeState::kLost) | Bit(NodeState::kStopped),
    // running
    Bit(NodeState::kDraining) | Bit(NodeState::kDone) | Bit(NodeState::kFailed) |
        Bit(NodeState::kLost) | Bit(NodeState::kStopped),
    // draining
    Bit(NodeState::kDone) | Bit(NodeState::kFailed) | Bit(NodeState::kLost) |
        Bit(NodeState::kStopped),
    // done, failed
    0, 0,
    // lost: where another node comes in its place
    Bit(NodeState::kRegistered),
    // stopped
    0};

}  // namespace

bool MayBecome(NodeState from, NodeState to) {
  return (kTransitions[static_cast<std::size_t>(from)] & Bit(to)) != 0;
}

}  // namespace tfos::control
