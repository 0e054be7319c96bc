#ifndef TFOS_FEED_WIRE_READ_POSITION_H_
#define TFOS_FEED_WIRE_READ_POSITION_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>

namespace tfos::feed {

/// How far a node's program has read what one feeder sent: all chunks before number `chunk`, and of
/// that one the first `rows` rows. In one word, which the node writes into the memory that it
/// shares with the feeder and which is still there when the node has died.
struct ReadPosition {
  std::uint32_t chunk = 0;  ///< Counted from 0 since the memory was handed over.
  std::uint32_t rows = 0;

  std::uint64_t Packed() const { return std::uint64_t{chunk} << 32 | rows; }
  static ReadPosition Unpack(std::uint64_t word) {
    return {.chunk = static_cast<std::uint32_t>(word >> 32),
            .rows = static_cast<std::uint32_t>(word)};
  }
};

/// Keeps the node's side of it: which of the chunks that came have been read, in whatever order.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. Units: chunks and rows.
class ReadTracker {
 public:
  static constexpr std::uint64_t kAllRows = std::numeric_limits<std::uint64_t>::max();

  /// The next chunk has come.
  void Accept() { unread_.push_back(0); }
  /// The first `rows` rows of a chunk that has come were read; never fewer than before.
  void Read(std::uint64_t chunk, std::uint64_t rows) {
    if (chunk < first_) return;
    unread_[chunk - first_] = rows;
    while (!unread_.empty() && unread_.front() == kAllRows) {
      unread_.pop_front();
      ++first_;
    }
  }

  bool all_read() const { return unread_.empty(); }
  ReadPosition position() const {
    return {.chunk = static_cast<std::uint32_t>(first_),
            .rows = static_cast<std::uint32_t>(unread_.empty() ? 0 : unread_.front())};
  }

 private:
  std::uint64_t first_ = 0;           ///< The first chunk of which not all was read.
  std::deque<std::uint64_t> unread_;  ///< From that one on: rows that were read.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_WIRE_READ_POSITION_H_
