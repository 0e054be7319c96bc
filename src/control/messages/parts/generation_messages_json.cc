#include "control/messages/parts/generation_messages_json.h"

namespace tfos::control {

template std::string SerializeMessage(const Regroup&);
template std::string SerializeMessage(const FormedGroup&);
template std::string SerializeMessage(const GroupReady&);
template std::string SerializeMessage(const Meet&);
template std::string SerializeMessage(const NoGroup&);

}  // namespace tfos::control
