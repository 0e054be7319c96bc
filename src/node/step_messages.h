#ifndef TFOS_NODE_STEP_MESSAGES_H_
#define TFOS_NODE_STEP_MESSAGES_H_

#include "control/messages/parts/shared_messages.h"
#include "feed/read/steps/step_desk.h"

namespace tfos::node {

/// What a node tells the coordinator of the steps that it can make. Threads: any. Errors: none.
control::StepReport MessageOf(const feed::StepReport& report);

/// What the coordinator has told the node: the steps that it may make, and which rows go to which
/// node.
feed::StepGrant GrantOf(const control::StepTickets& tickets);

}  // namespace tfos::node

#endif  // TFOS_NODE_STEP_MESSAGES_H_
