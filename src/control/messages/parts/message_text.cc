#include "control/messages/parts/message_text.h"

#include "base/format.h"
#include "base/text/json_fields.h"

namespace tfos::control {

bool IsJsonObject(std::string_view text) {
  return ParseJsonObject(text, kMaxMessageBytes, "the message").ok();
}

Status CheckProtocol(std::string_view peer, int protocol) {
  if (protocol == kProtocolVersion) return Status::Ok();
  return Status(ErrorKind::kBadInput,
                fmt::format("the {} speaks control protocol {} and the coordinator {}: both must "
                            "come from the same version of tfos",
                            peer, protocol, kProtocolVersion));
}

}  // namespace tfos::control
