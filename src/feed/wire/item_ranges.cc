#include "feed/wire/item_ranges.h"

#include <algorithm>
#include <limits>

namespace tfos::feed {

void ItemRanges::Add(const ItemRange& range) {
  if (range.begin >= range.end) return;
  // Chunks mostly arrive in order: the search ends at the last range, and nothing is moved.
  const auto first =
      std::partition_point(ranges_.begin(), ranges_.end(),
                           [&](const ItemRange& known) { return known.end < range.begin; });
  auto last = first;
  ItemRange merged = range;
  for (; last != ranges_.end() && last->begin <= range.end; ++last) {
    merged = {std::min(merged.begin, last->begin), std::max(merged.end, last->end)};
  }
  if (first == last) {
    ranges_.insert(first, merged);
  } else {
    *first = merged;
    ranges_.erase(first + 1, last);
  }
}

void ItemRanges::Add(const ItemRanges& others) {
  for (const ItemRange& range : others.ranges_) Add(range);
}

std::uint64_t ItemRanges::items() const {
  std::uint64_t sum = 0;
  for (const ItemRange& range : ranges_) sum += range.items();
  return sum;
}

std::uint64_t ItemRanges::ItemsIn(const ItemRange& range) const {
  std::uint64_t sum = 0;
  for (std::uint64_t item = range.begin; item < range.end;) {
    const Stretch stretch = From(item);
    const std::uint64_t end = std::min(stretch.end, range.end);
    if (stretch.contained) sum += end - item;
    item = end;
  }
  return sum;
}

ItemRanges::Stretch ItemRanges::From(std::uint64_t item) const {
  const auto next = std::partition_point(
      ranges_.begin(), ranges_.end(), [item](const ItemRange& known) { return known.end <= item; });
  if (next == ranges_.end()) return {.end = std::numeric_limits<std::uint64_t>::max()};
  if (item < next->begin) return {.end = next->begin};
  return {.contained = true, .end = next->end};
}

}  // namespace tfos::feed
