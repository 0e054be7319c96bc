#ifndef TFOS_FEED_WIRE_FRAME_READER_H_
#define TFOS_FEED_WIRE_FRAME_READER_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "feed/wire/frame.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Cuts a stream of bytes into frames without copying what is large.
///
/// Small frames are gathered in a buffer of its own. The bytes of DATA, RESULT and ERROR (the
/// payload) go straight to where the owner wants them. Use:
///   read from the socket into Space(); Filled(count);
///   while Next() returns an event: handle it; for kPayloadBegin call SetTarget first.
///
/// Owner and lifetime: owns its buffer; a target must stay valid until its kPayloadEnd.
/// Threads: one. Errors: kBadInput for anything but a frame, or beyond a limit; then it is dead.
class FrameReader {
 public:
  enum class Event {
    kNone,          ///< More bytes are needed.
    kMessage,       ///< `type()` and `body()` are one whole message.
    kPayloadBegin,  ///< `body()` is the fixed part; `payload_bytes()` follow: SetTarget.
    kPayloadEnd,    ///< All bytes of the payload are in the target.
  };

  /// Largest payloads that are taken; zero refuses the message altogether.
  struct Limits {
    std::uint64_t data = 0;
    std::uint64_t result = 0;
    std::uint64_t error = kErrorTextLimit;
  };

  FrameReader();

  void set_limits(const Limits& limits) { limits_ = limits; }

  /// Where the next bytes go; never empty.
  std::span<std::byte> Space();
  void Filled(std::size_t bytes);
  Result<Event> Next();

  MessageType type() const { return type_; }
  /// Valid until the next call of Space.
  std::span<const std::byte> body() const { return body_; }
  std::uint32_t payload_bytes() const { return payload_bytes_; }
  /// `target` holds payload_bytes() bytes.
  void SetTarget(std::span<std::byte> target);

 private:
  std::size_t buffered() const { return filled_ - parsed_; }
  Status ParseHeader();

  Limits limits_;
  std::vector<std::byte> buffer_;
  std::size_t parsed_ = 0;
  std::size_t filled_ = 0;

  bool in_frame_ = false;
  bool in_payload_ = false;
  MessageType type_ = MessageType::kError;
  std::uint32_t head_bytes_ = 0;
  std::uint32_t payload_bytes_ = 0;
  std::span<const std::byte> body_;
  std::span<std::byte> target_;  ///< What of the target is still to be filled.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_WIRE_FRAME_READER_H_
