#ifndef TFOS_CONTROL_MESSAGES_PROGRESS_SILENCE_H_
#define TFOS_CONTROL_MESSAGES_PROGRESS_SILENCE_H_

#include <string>
#include <vector>

#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/progress/node_view.h"

// What nodes do, and those whose process does not answer its agent, for people. Threads: pure
// functions.
namespace tfos::control {

/// For how many seconds a node's process has given no sign of life; 0 while it answers, and once
/// the node has ended.
double SecondsSilent(const NodeInfo& node, const Metrics& metrics);

/// What the node does: its own word, or that it waits for the first of its rows, which may take
/// long and of which the program itself says nothing.
std::string DoingOf(const NodeInfo& node, const Metrics& metrics);

/// The same with its silence before it: "no sign of life for 24 s; first step".
std::string DoingWithSilence(const NodeInfo& node, const Metrics& metrics);

/// "no sign of life on worker:1 for 24 s", "no sign of life on worker:1 and 2 others for 24 s": of
/// the longest silence. Empty if all nodes answer.
std::string SilenceAmong(const std::vector<NodeView>& nodes);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PROGRESS_SILENCE_H_
