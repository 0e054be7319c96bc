#ifndef TFOS_FEED_WIRE_ITEM_RANGES_H_
#define TFOS_FEED_WIRE_ITEM_RANGES_H_

#include <cstdint>
#include <utility>
#include <vector>

namespace tfos::feed {

/// Items `begin` to `end` of a partition, counted from 0; `end` is not one of them.
struct ItemRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t items() const { return end - begin; }
  friend bool operator==(const ItemRange&, const ItemRange&) = default;
};

/// Items that went to a node as one chunk.
struct AcceptedChunk {
  ItemRange items;
  std::uint32_t checksum = 0;  ///< CRC-32C of the chunk's bytes.

  friend bool operator==(const AcceptedChunk&, const AcceptedChunk&) = default;
};

/// A range of two items at least, as two.
inline std::pair<ItemRange, ItemRange> Halves(const ItemRange& items) {
  const std::uint64_t middle = items.begin + items.items() / 2;
  return {{items.begin, middle}, {middle, items.end}};
}

/// Some of a partition's items.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. Units: items.
class ItemRanges {
 public:
  /// A range without items changes nothing.
  void Add(const ItemRange& range);
  void Add(const ItemRanges& others);

  /// In order; none is empty, and none touches the next.
  const std::vector<ItemRange>& ranges() const { return ranges_; }
  std::uint64_t items() const;
  /// How many of the range's items are in here.
  std::uint64_t ItemsIn(const ItemRange& range) const;

  /// Neighbours that are all in here, or all not.
  struct Stretch {
    bool contained = false;
    std::uint64_t end = 0;
  };
  /// From `item` on.
  Stretch From(std::uint64_t item) const;

 private:
  std::vector<ItemRange> ranges_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_WIRE_ITEM_RANGES_H_
