#ifndef TFOS_CONTROL_ASK_NODE_LOSS_H_
#define TFOS_CONTROL_ASK_NODE_LOSS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/time/wait.h"
#include "tfos/status.h"

namespace tfos::control {

/// Why a task that feeds rows found a node gone.
enum class LossReason {
  kUnknown,           ///< The coordinator knows of no reason, or is gone itself.
  kProgramsReturned,  ///< Every node that was fed has ended in order: nobody wants rows any more.
  kClusterFailed,     ///< The cluster has failed, which explains it.
};

struct NodeLoss {
  LossReason reason = LossReason::kUnknown;
  std::string failure;  ///< kClusterFailed: the FAILURE as JSON.
};

/// Asks for a resource of the coordinator: the body of an answer with status 200, else nothing.
using AskCoordinator = std::function<std::optional<std::string>(const std::string& target,
                                                                std::chrono::milliseconds limit)>;

/// What is said of the nodes `fed` that could be fed. Nodes that the cluster was allowed to lose
/// have ended in order. A failure may be on its way, so it is waited for, and the nodes are asked
/// for once more then. Threads: any. Errors: none; an answer that is not understood is none.
NodeLoss ExplainNodeLoss(const std::set<int>& fed, const AskCoordinator& ask);

/// The same by the plan of the job, the JSON that each of its tasks has (FeedPlan in
/// python/tfos/feed/plan.py). `check` may end it early.
/// Errors: kBadInput for a plan without the coordinator, never with its keys; those of `check`.
Result<NodeLoss> WhyNodeWasLost(std::string_view plan, const InterruptCheck& check);

/// The ids of the nodes that have ended, whether in order or not, as the coordinator of the plan
/// says. Threads: any. Errors: kReconnect, the cluster has failed; kRetryLater, the coordinator
/// can't be asked or its answer is not understood; kBadInput as above; those of `check`.
Result<std::set<std::uint32_t>> EndedNodes(std::string_view plan, const InterruptCheck& check);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_ASK_NODE_LOSS_H_
