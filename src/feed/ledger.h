#ifndef TFOS_FEED_LEDGER_H_
#define TFOS_FEED_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "feed/item_ranges.h"
#include "feed/session.h"

namespace tfos::feed {

/// Which items of each partition a node has accepted, for retried tasks to skip.
///
/// It remembers the partitions first seen most recently, as many as `capacity` ranges of items
/// describe: a retry follows soon after its failure, and older jobs are over. Owner and lifetime:
/// a value. Threads: one at a time. Errors: none. Units: items.
class Ledger {
 public:
  explicit Ledger(std::size_t capacity = std::size_t{1} << 18) : capacity_(capacity) {}

  /// Empty for a partition it does not know.
  ItemRanges Accepted(const PartitionKey& key) const {
    const auto it = accepted_.find(key);
    return it == accepted_.end() ? ItemRanges() : it->second;
  }

  void Add(const PartitionKey& key, const ItemRange& items) {
    if (items.begin >= items.end) return;
    const auto [it, added] = accepted_.try_emplace(key);
    if (added) order_.push_back(key);
    ranges_ -= it->second.ranges().size();
    it->second.Add(items);
    ranges_ += it->second.ranges().size();
    while (ranges_ > capacity_ && order_.size() > 1) Forget();
  }

  /// They were accepted, and given up before a consumer had them.
  void Remove(const PartitionKey& key, const ItemRange& items) {
    const auto it = accepted_.find(key);
    if (it == accepted_.end()) return;
    ranges_ -= it->second.ranges().size();
    it->second.Remove(items);
    ranges_ += it->second.ranges().size();
  }

 private:
  void Forget() {
    const auto oldest = accepted_.find(order_.front());
    ranges_ -= oldest->second.ranges().size();
    accepted_.erase(oldest);
    order_.pop_front();
  }

  std::size_t capacity_;
  std::size_t ranges_ = 0;  ///< Of all partitions.
  std::map<PartitionKey, ItemRanges> accepted_;
  std::deque<PartitionKey> order_;  ///< Oldest first; the keys of `accepted_`.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_LEDGER_H_
