#include "control/messages/parts/shared_messages_json.h"

namespace tfos::control {

template std::string SerializeMessage(const EndFeed&);
template std::string SerializeMessage(const EndEpoch&);
template std::string SerializeMessage(const AbandonEpoch&);
template std::string SerializeMessage(const EndJob&);
template std::string SerializeMessage(const StepReport&);
template std::string SerializeMessage(const StepTickets&);
template std::string SerializeMessage(const NodeLeaving&);
template std::string SerializeMessage(const NodeMoved&);
template std::string SerializeMessage(const Stop&);
template std::string SerializeMessage(const StandBy&);
template std::string SerializeMessage(const StateReport&);
template std::string SerializeMessage(const FailureMessage&);
template std::string SerializeMessage(const FeedTerminated&);
template std::string SerializeMessage(const Done&);

}  // namespace tfos::control
