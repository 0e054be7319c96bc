#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "control/messages/agent_messages.h"
#include "control/messages/driver_messages.h"
#include "control/messages/launch_messages.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"

namespace {

// What was taken must be writable, and readable again.
template <typename Message>
void Check(std::string_view text) {
  const auto message = tfos::control::ParseMessage<Message>(text);
  if (!message.ok()) return;
  std::visit(
      [](const auto& alternative) {
        using Alternative = std::decay_t<decltype(alternative)>;
        if constexpr (!std::is_same_v<Alternative, tfos::control::UnknownMessage>) {
          const std::string written = tfos::control::SerializeMessage(alternative);
          const bool fits = written.size() <= tfos::control::kMaxMessageBytes;
          if (fits && !tfos::control::ParseMessage<Message>(written).ok()) std::abort();
        }
      },
      *message);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  Check<tfos::control::DriverMessage>(text);
  Check<tfos::control::CoordinatorEvent>(text);
  Check<tfos::control::AgentMessage>(text);
  Check<tfos::control::AgentCommand>(text);
  Check<tfos::control::LaunchMessage>(text);
  Check<tfos::control::LaunchEvent>(text);
  Check<tfos::control::NodeCommand>(text);
  Check<tfos::control::NodeMessage>(text);
  return 0;
}
