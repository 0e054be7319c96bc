#ifndef TFOS_FEED_NODE_SESSION_LEDGER_H_
#define TFOS_FEED_NODE_SESSION_LEDGER_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>

#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"

namespace tfos::feed {

/// Which items of each partition a node has accepted, for retried tasks to skip, and of which
/// attempt it accepts more.
///
/// It remembers the partitions first seen most recently, as many as `capacity` ranges of items
/// and partitions describe: a retry follows soon after its failure, and older jobs are over. Owner
/// and lifetime: a value. Threads: one at a time. Errors: none. Units: items.
class Ledger {
 public:
  explicit Ledger(std::size_t capacity = std::size_t{1} << 18) : capacity_(capacity) {}

  /// Empty for a partition it does not know.
  ItemRanges Accepted(const PartitionKey& key) const {
    const auto it = partitions_.find(key);
    return it == partitions_.end() ? ItemRanges() : it->second.accepted;
  }

  /// Nothing for the latest attempt that has been here, and for a later one, which takes over; for
  /// an earlier one that latest one, in whatever order they come.
  std::optional<AttemptId> TakenOverBy(const PartitionKey& key, AttemptId attempt) {
    std::optional<AttemptId> later;
    Change(key, [&](Partition& partition) {
      if (attempt < partition.latest) later = partition.latest;
      partition.latest = std::max(partition.latest, attempt);
    });
    return later;
  }

  void Add(const PartitionKey& key, const ItemRange& items) {
    if (items.begin >= items.end) return;
    Change(key, [&](Partition& partition) { partition.accepted.Add(items); });
  }

  /// They were accepted, and given up before a consumer had them.
  void Remove(const PartitionKey& key, const ItemRange& items) {
    if (!partitions_.contains(key)) return;
    Change(key, [&](Partition& partition) { partition.accepted.Remove(items); });
  }

 private:
  struct Partition {
    ItemRanges accepted;
    AttemptId latest = 0;

    std::size_t size() const { return accepted.ranges().size() + 1; }
  };

  template <typename Edit>
  void Change(const PartitionKey& key, Edit edit) {
    const auto [it, added] = partitions_.try_emplace(key);
    if (added) {
      order_.push_back(key);
    } else {
      size_ -= it->second.size();
    }
    edit(it->second);
    size_ += it->second.size();
    while (size_ > capacity_ && order_.size() > 1) Forget();
  }

  void Forget() {
    const auto oldest = partitions_.find(order_.front());
    size_ -= oldest->second.size();
    partitions_.erase(oldest);
    order_.pop_front();
  }

  std::size_t capacity_;
  std::size_t size_ = 0;  ///< Of all partitions.
  std::map<PartitionKey, Partition> partitions_;
  std::deque<PartitionKey> order_;  ///< Oldest first; the keys of `partitions_`.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_SESSION_LEDGER_H_
