#ifndef TFOS_COLLECTIVE_MESH_LINK_FRAME_H_
#define TFOS_COLLECTIVE_MESH_LINK_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/memory/aligned_buffer.h"
#include "base/memory/bytes.h"

// The frames that two members exchange: docs/formats/tensor-protocol.md. Units: bytes.

namespace tfos::collective {

enum class FrameType : std::uint32_t {
  kOperation = 1,
  kData = 2,
  kAbort = 3,
  kWaiting = 4,
  kLeft = 5
};

/// Frames take up multiples of this, so that elements stay where the kernel copies them fast: at
/// the same place in a cache line on both sides. Over loopback, 8 bytes off cost two thirds of the
/// rate.
inline constexpr std::size_t kLineBytes = kBufferAlignment;
inline constexpr std::size_t kHeaderBytes = kLineBytes;
/// The most bytes of a frame that is looked at only once it is complete.
inline constexpr std::size_t kControlLimit = std::size_t{64} << 10;

/// What a frame begins with.
struct FrameHeader {
  FrameType type{};
  std::uint32_t length = 0;  ///< Of its content.

  /// `staged` has that much.
  static FrameHeader Of(std::span<const std::byte> staged) {
    ByteReader reader(staged);
    const auto type = reader.Take<FrameType>();
    return {.type = type, .length = reader.Take<std::uint32_t>()};
  }
  /// All of a frame other than DATA, which is filled up.
  std::size_t frame_bytes() const { return kHeaderBytes + AlignUp(length, kLineBytes); }
};

inline void AppendHeader(FrameType type, std::size_t length, std::string& to) {
  const std::size_t begin = to.size();
  AppendBytes(type, to);
  AppendBytes(static_cast<std::uint32_t>(length), to);
  to.append(begin + kHeaderBytes - to.size(), '\0');
}

inline void AppendFrame(FrameType type, std::string_view body, std::string& to) {
  AppendHeader(type, body.size(), to);
  to += body;
  to.append(AlignUp(body.size(), kLineBytes) - body.size(), '\0');
}

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_MESH_LINK_FRAME_H_
