#ifndef TFOS_CONTROL_MESSAGES_PROGRESS_SILENCE_H_
#define TFOS_CONTROL_MESSAGES_PROGRESS_SILENCE_H_

#include <string>
#include <vector>

#include "control/messages/parts/metrics.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/progress/node_view.h"

// What nodes do, those whose process does not answer its agent, and those that make no steps any
// more, for people. Threads: pure functions.
namespace tfos::control {

/// What a node trains with from now on: Spark brings it no more rows.
inline constexpr const char* kAllFed = "all its rows are there";
/// After `tfos stop`. All words about a stop begin as these do.
inline constexpr const char* kFeedStopped = "stopping: no more rows will come";
inline constexpr const char* kStopping = "stopping: ";

/// For how many seconds a node's process has given no sign of life; 0 while it answers, and once
/// the node has ended.
double SecondsSilent(const NodeInfo& node, const Metrics& metrics);

/// For how many seconds a node that was making steps has made none, though nothing explains it; 0
/// as long as that is usual (StepWatch), and once the node has ended.
double SecondsWithoutStep(const NodeInfo& node, const Metrics& metrics);

/// Whether a node spends most of its time waiting for other nodes.
bool WaitsForOthers(const Metrics& metrics);

/// What the node does: its own word, or that it waits for the first of its rows or has not asked
/// for any, which may take long and of which the program itself says nothing.
std::string DoingOf(const NodeInfo& node, const Metrics& metrics);

/// The same with what is wrong before it: "no sign of life for 24 s; first step", "no step for
/// 1:10".
std::string DoingWithSilence(const NodeInfo& node, const Metrics& metrics);

/// "no sign of life on worker:1 for 24 s", "no sign of life on worker:1 and 2 others for 24 s": of
/// the longest silence. Empty if all nodes answer.
std::string SilenceAmong(const std::vector<NodeView>& nodes);

/// "no step on worker:1 for 1:10", likewise. Nodes that wait for the others most of the time are
/// left out, unless all do: the others hold them up. Empty if all make steps.
std::string StuckAmong(const std::vector<NodeView>& nodes);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PROGRESS_SILENCE_H_
