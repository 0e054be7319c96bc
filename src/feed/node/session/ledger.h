#ifndef TFOS_FEED_NODE_SESSION_LEDGER_H_
#define TFOS_FEED_NODE_SESSION_LEDGER_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"

namespace tfos::feed {

/// Which items of each partition a node has accepted, for retried tasks to skip, and of which
/// attempt it accepts more.
///
/// It remembers the partitions first seen most recently, as many as `capacity` ranges of items and
/// attempts describe: a retry follows soon after its failure, and older jobs are over. Owner and
/// lifetime: a value. Threads: one at a time. Errors: none. Units: items.
class Ledger {
 public:
  /// Of one partition, that it remembers.
  static constexpr std::size_t kMostAttempts = 1024;

  explicit Ledger(std::size_t capacity = std::size_t{1} << 18) : capacity_(capacity) {}

  /// Empty for a partition it does not know.
  ItemRanges Accepted(const PartitionKey& key) const {
    const auto it = partitions_.find(key);
    return it == partitions_.end() ? ItemRanges() : it->second.accepted;
  }

  /// Nothing for an attempt that has not been here, which takes over, and for the one that has
  /// taken over last; for one before it that last one.
  std::optional<Attempt> TakenOverBy(const PartitionKey& key, const Attempt& attempt) {
    std::optional<Attempt> last;
    Change(key, [&](Partition& partition) {
      std::vector<Attempt>& attempts = partition.attempts;
      const auto known = std::ranges::find(attempts, attempt);
      if (known == attempts.end()) {
        // Spark makes a few. Of more, the first ones have long been over.
        if (attempts.size() == kMostAttempts) attempts.erase(attempts.begin());
        attempts.push_back(attempt);
      } else if (*known != attempts.back()) {
        last = attempts.back();
      }
    });
    return last;
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
    std::vector<Attempt> attempts;  ///< In the order in which they came.

    std::size_t size() const { return accepted.ranges().size() + attempts.size(); }
  };

  template <typename Edit>
  void Change(const PartitionKey& key, Edit edit) {
    const auto [it, added] = partitions_.try_emplace(key);
    if (added) order_.push_back(key);
    size_ -= it->second.size();
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
