#include "control/messages/parts/node_info.h"

#include <array>

namespace tfos::control {
namespace {

constexpr std::array<std::string_view, kNodeStates> kStateNames = {
    "expected", "starting", "registered", "running", "draining",
    "done",     "failed",   "lost",       "stopped"};

}  // namespace

std::string_view NodeStateName(NodeState state) {
  return kStateNames[static_cast<std::size_t>(state)];
}

}  // namespace tfos::control
