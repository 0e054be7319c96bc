#ifndef TFOS_FEED_NODE_SESSION_LEDGER_H_
#define TFOS_FEED_NODE_SESSION_LEDGER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"

namespace tfos::feed {

/// Which chunks of each partition a node has accepted, for retried tasks to skip, and of which
/// attempt it accepts more; and how much of each epoch.
///
/// It forgets a job's partitions when the job has ended, as the driver says. Before that it forgets
/// partitions only when it has more than `capacity` chunks and partitions in mind: of those that
/// are not being fed the one that it has heard of least recently. Owner and lifetime: a value.
/// Threads: one at a time. Errors: none. Units: items and bytes.
class Ledger {
 public:
  /// How many of the jobs that have ended it knows, the latest ones. An attempt that comes of
  /// an earlier one would be let in, but Spark ends the attempts of a job with the job.
  static constexpr std::size_t kEndedJobs = 1024;

  explicit Ledger(std::size_t capacity = std::size_t{1} << 20) : capacity_(capacity) {}

  /// In the order of their items. Empty for a partition it does not know.
  std::vector<AcceptedChunk> Accepted(const PartitionKey& key) const {
    std::vector<AcceptedChunk> chunks;
    const auto found = partitions_.find(key);
    if (found == partitions_.end()) return chunks;
    for (const auto& [begin, chunk] : found->second.chunks) chunks.push_back(chunk);
    return chunks;
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

  /// How much was accepted of an epoch of a job that has not ended, be it taken back since.
  std::uint64_t Bytes(const JobId& job, std::uint32_t epoch) const {
    const auto found = bytes_.find({job, epoch});
    return found == bytes_.end() ? 0 : found->second;
  }

  void Add(const PartitionKey& key, const AcceptedChunk& chunk, std::uint64_t bytes) {
    if (chunk.items.begin >= chunk.items.end) return;
    Change(key, [&](Partition& partition) { partition.chunks[chunk.items.begin] = chunk; });
    if (partitions_.contains(key)) bytes_[{key.job, key.epoch}] += bytes;
  }

  /// A chunk that was accepted, and given up before a consumer had it.
  void Remove(const PartitionKey& key, const ItemRange& items) {
    if (!partitions_.contains(key)) return;
    Change(key, [&](Partition& partition) { partition.chunks.erase(items.begin); });
  }

  /// A session feeds the partition, which is not forgotten until as many have ended.
  void BeginSession(const PartitionKey& key) {
    Change(key, [](Partition& partition) { ++partition.sessions; });
  }
  void EndSession(const PartitionKey& key) {
    const auto found = partitions_.find(key);
    if (found != partitions_.end() && found->second.sessions > 0) --found->second.sessions;
  }

  /// No attempt of the job brings anything any more: what came of it is forgotten, and nothing that
  /// is said of it counts.
  void EndJob(const JobId& job) {
    auto next = partitions_.lower_bound({.job = job});
    while (next != partitions_.end() && next->first.job == job) Erase(next++);
    std::erase_if(bytes_, [&](const auto& entry) { return entry.first.first == job; });
    if (HasEnded(job)) return;
    ended_.push_back(job);
    if (ended_.size() > kEndedJobs) ended_.pop_front();
  }
  bool HasEnded(const JobId& job) const { return std::ranges::find(ended_, job) != ended_.end(); }

  /// Partitions that were forgotten, with what was accepted of them, for want of capacity.
  std::size_t forgotten() const { return forgotten_; }
  std::size_t partitions() const { return partitions_.size(); }

 private:
  struct Partition {
    std::map<std::uint64_t, AcceptedChunk> chunks;  ///< By their first item.
    AttemptId latest = 0;
    std::size_t sessions = 0;
    std::list<PartitionKey>::iterator place;

    std::size_t size() const { return chunks.size() + 1; }
  };
  using Partitions = std::map<PartitionKey, Partition>;

  template <typename Edit>
  void Change(const PartitionKey& key, Edit edit) {
    auto it = partitions_.find(key);
    const bool added = it == partitions_.end();
    if (added && HasEnded(key.job)) return;
    if (added) it = partitions_.try_emplace(key).first;
    Partition& partition = it->second;
    if (added) {
      partition.place = heard_.insert(heard_.end(), key);
    } else {
      size_ -= partition.size();
      heard_.splice(heard_.end(), heard_, partition.place);
    }
    edit(partition);
    size_ += partition.size();
    if (size_ > capacity_) MakeRoom(key);
  }

  void MakeRoom(const PartitionKey& needed) {
    for (auto it = heard_.begin(); size_ > capacity_ && it != heard_.end();) {
      const PartitionKey key = *it++;
      const auto found = partitions_.find(key);
      if (key == needed || found->second.sessions > 0) continue;
      if (!found->second.chunks.empty()) ++forgotten_;
      Erase(found);
    }
  }

  void Erase(Partitions::iterator partition) {
    size_ -= partition->second.size();
    heard_.erase(partition->second.place);
    partitions_.erase(partition);
  }

  std::size_t capacity_;
  std::size_t size_ = 0;  ///< Of all partitions.
  std::size_t forgotten_ = 0;
  Partitions partitions_;
  std::list<PartitionKey> heard_;  ///< Their keys: those that were heard of last come last.
  std::deque<JobId> ended_;        ///< Likewise.
  std::map<std::pair<JobId, std::uint32_t>, std::uint64_t> bytes_;  ///< By job and epoch.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_SESSION_LEDGER_H_
