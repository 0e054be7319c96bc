#ifndef TFOS_FEED_WIRE_OUTBOX_H_
#define TFOS_FEED_WIRE_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "base/memory/aligned_buffer.h"
#include "base/process/unique_fd.h"
#include "net/stream.h"
#include "tfos/status.h"

namespace tfos::feed {

/// One frame on its way out.
struct OutFrame {
  std::string bytes;
  UniqueFd pass = UniqueFd();  ///< Sent along when valid: over a Unix socket only.
  AlignedBuffer result = {};   ///< Follows the bytes; counts against the limit of unread results.

  std::size_t size() const { return bytes.size() + result.size(); }
};

/// Frames that a stream has not taken yet.
///
/// Owner and lifetime: owns the frames; borrows the stream, always the same. Threads: one at a
/// time. Errors: those of the stream; it is useless afterwards.
class Outbox {
 public:
  void Add(OutFrame frame) { frames_.push_back(std::move(frame)); }
  bool empty() const { return frames_.empty(); }

  struct Flushed {
    bool blocked = false;            ///< Something is left: wait for POLLOUT.
    bool moved = false;              ///< The stream has taken something.
    std::uint64_t result_bytes = 0;  ///< Of the frames that are now out completely.
  };
  /// Descriptors go through the stream's socket, a Unix socket.
  Result<Flushed> Flush(net::Stream& stream);

 private:
  std::deque<OutFrame> frames_;
  std::size_t sent_ = 0;  ///< Bytes of the first frame that are out.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_WIRE_OUTBOX_H_
