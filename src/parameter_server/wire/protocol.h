#ifndef TFOS_PARAMETER_SERVER_WIRE_PROTOCOL_H_
#define TFOS_PARAMETER_SERVER_WIRE_PROTOCOL_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "net/handshake/protocol.h"
#include "parameter_server/model/layout.h"
#include "parameter_server/model/rule.h"
#include "tfos/status.h"

// What workers and parameter servers say to each other: docs/formats/parameter-server-protocol.md.
//
// Threads: any. Errors: bad input for what no client or server sends.

namespace tfos::parameter_server {

inline constexpr net::Protocol kProtocol{.magic = "tfos-par", .version = 4, .name = "parameters"};

enum class MessageType : std::uint32_t {
  kOpen = 1,
  kPush = 2,
  kCommit = 3,
  kRead = 4,
  kWrite = 5,
  kStart = 6,
  kOpened = 16,
  kCommitted = 17,
  kWaiting = 18,
  kValues = 19,
  kStarted = 20,
  kFailed = 21,
};

inline constexpr std::size_t kHeaderBytes = 8;
/// The most bytes of a message, without the data that follow some.
inline constexpr std::size_t kMostBodyBytes = std::size_t{1} << 20;
/// The most bytes of the data that follow one message.
inline constexpr std::size_t kMostDataBytes = std::size_t{4} << 20;
inline constexpr std::size_t kLongestText = 4096;
/// The version that OPENED tells of a server without values: it asks for those of the client.
inline constexpr std::uint64_t kNotStarted = ~std::uint64_t{0};

struct Header {
  MessageType type = MessageType::kFailed;
  std::uint32_t bytes = 0;
};
Result<Header> ParseHeader(std::span<const std::byte, kHeaderBytes> bytes);

/// The first message of a client.
struct Open {
  Rule rule;
  /// Gives the first values, and does not wait for them.
  bool starts = false;
  /// The version of the values that it can give a server that came again; kNotStarted: of none.
  std::uint64_t gives = kNotStarted;
  /// A random number of this client's link to this server, the same each time that it connects. The
  /// server goes on with what it pushes. 0: it remembers nothing.
  std::uint64_t link = 0;
  /// Pushes the other workers may be behind this one; none: as many as they like.
  std::optional<std::uint32_t> staleness;
  /// The size of the memory whose descriptor comes along; 0 for none.
  std::uint64_t region_bytes = 0;
  std::string name;  ///< For messages.
  std::vector<Variable> share;
};
/// The answer to it.
struct Opened {
  std::uint64_t version = 0;   ///< kNotStarted: the server has no values.
  std::uint64_t pushes = 0;    ///< Of the client's link that are committed.
  std::uint64_t combined = 0;  ///< Bytes that the server has of the next one.
};
/// A range of the share. With `data_follow` so many bytes come behind the message.
struct Range {
  std::uint8_t part = 0;  ///< 0: the values; 1 and 2: the optimizer's slots.
  bool data_follow = false;
  std::uint64_t begin = 0;
  std::uint64_t bytes = 0;
  std::uint64_t version = 0;  ///< Of the values; 0 from clients.
};
struct Waiting {
  std::uint64_t clock = 0;        ///< Of the one that waits.
  std::uint64_t other_clock = 0;  ///< Of the one that is waited for.
  std::string name;               ///< Its name.
};
struct Failed {
  ErrorKind kind = ErrorKind::kBug;
  std::string text;
};

// Messages with their headers.
std::string Encode(const Open& open);
std::string Encode(const Opened& opened);
/// kPush, kRead, kWrite or kValues.
std::string Encode(MessageType type, const Range& range);
/// kStart, kCommitted or kStarted; kCommit with the number of the push among those of the link.
std::string EncodeVersion(MessageType type, std::uint64_t version);
std::string Encode(const Waiting& waiting);
std::string Encode(const Failed& failed);

// Bodies.
Result<Open> ParseOpen(std::span<const std::byte> body);
/// Also bad input where no range can end at `combined`.
Result<Opened> ParseOpened(std::span<const std::byte> body);
Result<Range> ParseRange(std::span<const std::byte> body);
Result<std::uint64_t> ParseVersion(std::span<const std::byte> body);
Result<Waiting> ParseWaiting(std::span<const std::byte> body);
Result<Failed> ParseFailed(std::span<const std::byte> body);

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_WIRE_PROTOCOL_H_
