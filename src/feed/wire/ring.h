#ifndef TFOS_FEED_WIRE_RING_H_
#define TFOS_FEED_WIRE_RING_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

namespace tfos::feed {

/// Which bytes of a region hold chunks: a ring of contiguous blocks, freed oldest first.
///
/// Feeder and node keep one each. The feeder finds room in its own; the node checks with its own
/// that a chunk lies where nothing else is. The node frees first and tells the feeder, so what
/// the feeder sees as free is free for the node too.
///
/// Owner and lifetime: a value; it knows offsets only, no memory. Threads: one at a time.
/// Errors: none. Units: bytes; blocks start at and take up multiples of `kBufferAlignment`.
class Ring {
 public:
  explicit Ring(std::uint64_t capacity) : capacity_(capacity) {}

  std::uint64_t capacity() const { return capacity_; }
  std::size_t in_flight() const { return blocks_.size(); }

  /// Where a chunk of `bytes` bytes can lie now.
  std::optional<std::uint64_t> Find(std::uint64_t bytes) const;
  /// The largest chunk that Find has room for.
  std::uint64_t LargestFree() const;

  /// From the start of the region to the end of the furthest block that there ever was.
  std::uint64_t used() const { return used_; }

  /// Takes `bytes` bytes at `offset` as the newest block and returns its number, counted from 0.
  /// None: empty, not aligned, out of bounds, or over a block in flight.
  std::optional<std::uint64_t> Place(std::uint64_t offset, std::uint64_t bytes);

  /// Gives up block `number`, which is in flight. Returns how many blocks, oldest first, became
  /// free by that: none while an older one is still in use.
  std::size_t Release(std::uint64_t number);

  /// Frees the oldest `count` blocks. False: there are fewer; nothing was done.
  bool ReleaseOldest(std::size_t count);

 private:
  struct Block {
    std::uint64_t begin;
    std::uint64_t end;
    bool released = false;
  };
  struct Extent {
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  struct FreeSpace {
    Extent ahead;   ///< From the newest block on.
    Extent behind;  ///< From the region's start, when that is not used.
  };
  FreeSpace Free() const;

  std::uint64_t capacity_;
  std::uint64_t used_ = 0;
  std::uint64_t oldest_ = 0;  ///< Number of `blocks_.front()`.
  std::deque<Block> blocks_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_WIRE_RING_H_
