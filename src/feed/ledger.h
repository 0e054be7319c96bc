#ifndef TFOS_FEED_LEDGER_H_
#define TFOS_FEED_LEDGER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "feed/session.h"

namespace tfos::feed {

/// How many items of each partition a node has accepted, for retried tasks to skip.
///
/// It remembers the partitions first seen most recently, up to `capacity`: a retry follows soon
/// after its failure, and older jobs are over. Owner and lifetime: a value. Threads: one at a
/// time. Errors: none. Units: items.
class Ledger {
 public:
  explicit Ledger(std::size_t capacity = std::size_t{1} << 16) : capacity_(capacity) {}

  /// Zero for a partition it does not know.
  std::uint64_t Accepted(const PartitionKey& key) const {
    const auto it = accepted_.find(key);
    return it == accepted_.end() ? 0 : it->second;
  }

  void Set(const PartitionKey& key, std::uint64_t items) {
    if (!accepted_.insert_or_assign(key, items).second) return;
    order_.push_back(key);
    if (order_.size() <= capacity_) return;
    accepted_.erase(order_.front());
    order_.pop_front();
  }

 private:
  std::size_t capacity_;
  std::map<PartitionKey, std::uint64_t> accepted_;
  std::deque<PartitionKey> order_;  ///< Oldest first; the keys of `accepted_`.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_LEDGER_H_
