#ifndef TFOS_CONTROL_COORDINATOR_ROSTER_NODE_WORDS_H_
#define TFOS_CONTROL_COORDINATOR_ROSTER_NODE_WORDS_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/time/deadline.h"
#include "control/messages/parts/node_info.h"
#include "control/messages/parts/shared_messages.h"
#include "control/messages/progress/silence.h"

// What the coordinator says to people about a node, and the failures that carry it.
// `since_ms` of a node says for how long it has been in its state. Threads: pure functions.
namespace tfos::control {

/// "1.5 s", "12 s".
std::string SecondsForPeople(std::chrono::milliseconds duration);

/// For example "worker:1 (node 1 on host7)".
std::string NodeName(const NodeInfo& node);

/// Whether `text` speaks of the node as tfos or TensorFlow names it: worker:1,
/// /job:worker/replica:0/task:1.
bool Names(std::string_view text, const NodeInfo& node);

/// One sentence: which it is, its state, for how long, and the reason.
std::string ExplainNode(const NodeInfo& node, const std::string& coordinator_address);

/// Which of the nodes have not registered, or were lost, one sentence for each.
std::string MissingNodes(const std::vector<NodeInfo>& nodes,
                         std::chrono::milliseconds registration_timeout,
                         const std::string& coordinator_address);

/// Why no node comes to a host for the time being: `losses` there `within` so long.
std::string HostIsAvoided(const std::string& host, int losses, Clock::Duration within);

std::string LostConnection(const NodeInfo& node);
std::string LostHeartbeats(const NodeInfo& node, std::chrono::milliseconds silence);
/// What the loss of a node adds to its message when Spark had announced it; else empty.
std::string BecauseItLeft(const NodeInfo& node);
/// The failure of a node that reports steps of ever new epochs.
FailureReport TooManyEpochs(const StepReport& report);
/// Why a node gets no group once all are stopped for `reason`.
std::string NoGroupAtStop(const std::string& reason);
std::string LateStart(const NodeInfo& node, std::chrono::milliseconds start_timeout);

/// The failure of a node that makes no steps any more: `lost`, as one that does not answer.
/// `held_up`: it waits for other nodes, and so do all of them.
FailureReport NoSteps(const NodeInfo& node, std::optional<double> step,
                      std::chrono::milliseconds standing, bool held_up, std::string stacks);

FailureReport Saying(std::string step, std::string message);
Failure FailureOf(const NodeInfo& node, FailureReport report);
Failure BlamingNobody(FailureReport report);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_ROSTER_NODE_WORDS_H_
