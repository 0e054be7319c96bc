#include "control/messages/parts/node_info.h"

#include <algorithm>
#include <array>

#include "control/messages/parts/node_info_json.h"

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

namespace tfos {

std::string JsonValue<control::NodeState>::Read(const Json& json, control::NodeState& value,
                                                JsonRange) {
  const auto* const name = json.get_ptr<const std::string*>();
  const auto known =
      name == nullptr ? control::kStateNames.end() : std::ranges::find(control::kStateNames, *name);
  if (known == control::kStateNames.end()) return "must be the name of a node state";
  value = static_cast<control::NodeState>(known - control::kStateNames.begin());
  return {};
}

Json JsonValue<control::NodeState>::Write(control::NodeState state) {
  return control::NodeStateName(state);
}

}  // namespace tfos
