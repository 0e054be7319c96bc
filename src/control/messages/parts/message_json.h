#ifndef TFOS_CONTROL_MESSAGES_PARTS_MESSAGE_JSON_H_
#define TFOS_CONTROL_MESSAGES_PARTS_MESSAGE_JSON_H_

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/text/json_fields.h"
#include "control/messages/parts/message_text.h"

// How ParseMessage and SerializeMessage work. Each source of messages instantiates them for its
// own.
namespace tfos::control {

/// Of the type of an unknown message, which is kept.
inline constexpr std::size_t kMostTypeBytes = 256;

// Messages that are only their type.
template <typename M>
concept Empty = std::is_empty_v<M>;

template <typename F, Empty M>
void Describe(F&, M&) {}

/// `fields` of a message of that type, as a line.
inline std::string LineOf(std::string_view type, Json fields) {
  fields["type"] = type;
  return WriteJsonLine(fields);
}

/// Reads `json` as `Alternative` if its type says so. True when it did, whatever came out.
template <typename Alternative, typename Message>
bool ReadAs(std::string_view type, const Json& json, Result<Message>& result) {
  if constexpr (std::same_as<Alternative, UnknownMessage>) {
    return false;
  } else {
    if (type != Alternative::kType) return false;
    Alternative message;
    JsonReader reader(json);
    Describe(reader, message);
    if (reader.error().empty()) {
      result = Message(std::move(message));
    } else {
      result =
          Status(ErrorKind::kBadInput, "message '" + std::string(type) + "': " + reader.error());
    }
    return true;
  }
}

template <typename... Alternatives>
Result<std::variant<Alternatives...>> ReadAny(std::string_view type, const Json& json,
                                              std::type_identity<std::variant<Alternatives...>>) {
  using Message = std::variant<Alternatives...>;
  Result<Message> result = Message(UnknownMessage{std::string(type.substr(0, kMostTypeBytes))});
  (ReadAs<Alternatives>(type, json, result) || ...);
  return result;
}

template <typename Message>
Result<Message> ParseMessage(std::string_view text) {
  Result<Json> parsed = ParseJsonObject(text, kMaxMessageBytes, "the message");
  if (!parsed.ok()) return parsed.status();
  const Json& json = *parsed;
  const auto type = json.find("type");
  if (type == json.end() || !type->is_string()) {
    return Status(ErrorKind::kBadInput, "the message has no 'type' that is a string");
  }
  return ReadAny(type->get_ref<const std::string&>(), json, std::type_identity<Message>());
}

template <typename Message>
std::string SerializeMessage(const Message& message) {
  return LineOf(Message::kType, JsonValue<Message>::Write(message));
}

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_MESSAGE_JSON_H_
