#ifndef TFOS_CONTROL_AGENT_EVENT_DETAILS_H_
#define TFOS_CONTROL_AGENT_EVENT_DETAILS_H_

#include <chrono>
#include <string>
#include <utility>

#include "control/messages/agent_messages.h"
#include "control/messages/parts/node_info.h"

namespace tfos::control {

/// Between TERM and KILL when nobody said how long.
inline constexpr std::chrono::milliseconds kGrace(3000);
inline constexpr std::chrono::milliseconds kNoGrace(0);

/// What an event brings along for the actions that it may cause.
struct EventDetails {
  FailureReport failure = {};
  std::chrono::milliseconds grace = kGrace;
  std::string reason = {};                    // of a stop
  const control::StartNode* start = nullptr;  // of a start
};

/// `lost`: as in FailureReport.
inline EventDetails Failing(std::string step, std::string message, bool lost = false) {
  EventDetails details;
  details.failure.step = std::move(step);
  details.failure.message = std::move(message);
  details.failure.lost = lost;
  return details;
}

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_EVENT_DETAILS_H_
