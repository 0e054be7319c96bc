#ifndef TFOS_CONTROL_MESSAGES_PARTS_MESSAGE_TEXT_H_
#define TFOS_CONTROL_MESSAGES_PARTS_MESSAGE_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "tfos/status.h"

// Messages as text.
//
// Errors: parsing never throws; a message that is not JSON, lacks a field or has one of a wrong
// type is kBadInput and the text names the field, never a secret.
namespace tfos::control {

inline constexpr int kProtocolVersion = 1;

/// The longest control message, in bytes.
inline constexpr std::size_t kMaxMessageBytes = 4u << 20;

/// A message of a type that this version doesn't know. Not an error: ignore it.
struct UnknownMessage {
  std::string type;
};

/// Reads one message of the link whose messages `Message` (one of the variants of the headers
/// beside this one) lists.
///   UnknownMessage  a well-formed message of another type
///   kBadInput       anything else, too long (kMaxMessageBytes) or too deep ones included
template <typename Message>
Result<Message> ParseMessage(std::string_view text);

/// Whether `text` is a JSON object. A message that is one and yet can't be read comes from a
/// program or another version; anything else is a broken link.
bool IsJsonObject(std::string_view text);

/// The message as one line of JSON, without a line feed. Text that is not UTF-8 is repaired.
template <typename Message>
std::string SerializeMessage(const Message& message);

/// Bad input, in words, when `peer` ("driver", "agent") speaks another version of the protocol than
/// the coordinator.
Status CheckProtocol(std::string_view peer, int protocol);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_MESSAGE_TEXT_H_
