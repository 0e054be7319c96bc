#ifndef TFOS_CONTROL_ASK_FAILURE_TEXT_H_
#define TFOS_CONTROL_ASK_FAILURE_TEXT_H_

#include <string>
#include <string_view>

#include "tfos/status.h"

namespace tfos::control {

/// What a person reads of a FAILURE (docs/formats/control-protocol.md): who, where, at which step,
/// why, the remote traceback, the last lines of the node's output, and where all of it is. All of
/// it printable. `failure` is its JSON; what it lacks shows as "?". Threads: any. Errors: kBadInput
/// for a text that is not a JSON object, or one that is nested more than 64 deep.
Result<std::string> FailureText(std::string_view failure);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_ASK_FAILURE_TEXT_H_
