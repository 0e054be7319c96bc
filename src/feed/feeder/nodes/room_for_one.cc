// PartitionNodes, for a chunk that no region holds.

#include <algorithm>

#include "feed/feeder/nodes/partition_nodes.h"

namespace tfos::feed {

std::optional<std::size_t> PartitionNodes::LeastUnasked() const {
  const auto better = [](const FedNode& a, const FedNode& b) {
    if (a.accepted != b.accepted) return a.accepted < b.accepted;
    return !a.remote && b.remote;
  };
  std::optional<std::size_t> least;
  for (std::size_t k = 0; k < nodes_.size(); ++k) {
    const std::size_t i = (k + options_.session.key.partition) % nodes_.size();
    if (nodes_[i].asked || !nodes_[i].wants_rows()) continue;
    if (!least || better(nodes_[i], nodes_[*least])) least = i;
  }
  return least;
}

Result<std::optional<std::size_t>> PartitionNodes::OpenForOne(std::size_t bytes) {
  SessionOptions session = options_.session;
  session.region_bytes = 1;  // Next to nothing: it grows to the chunk's size.
  Deadline patience = Within(options_.progress_timeout);
  Clock::Duration pause = kPatienceAtHome;
  while (!stopped()) {
    if (const std::optional<std::size_t> next = LeastUnasked()) {
      TFOS_RETURN_IF_ERROR(Ask(*next, session));
    }
    const bool all_asked = !LeastUnasked();
    const Deadline round = all_asked ? patience : Within(pause).Min(patience);
    pause = std::min<Clock::Duration>(2 * pause, kMostPause);
    const auto any_asked = [&] {
      return std::ranges::any_of(nodes_,
                                 [](const FedNode& n) { return n.asked && n.wants_rows(); });
    };
    for (bool word = true; word;) {
      TFOS_ASSIGN_OR_RETURN(const std::optional<std::size_t> found, FindRoom(bytes));
      if (found) return found;
      if (!any_asked()) break;
      TFOS_ASSIGN_OR_RETURN(word, WaitForWord(round));
      if (word) patience = Within(options_.progress_timeout);
    }
    if (patience.passed()) return NobodyReads();
  }
  return std::optional<std::size_t>();
}

Result<std::optional<std::size_t>> PartitionNodes::FindRoom(std::size_t bytes) {
  std::optional<std::size_t> found;
  for (std::size_t i = 0; i < nodes_.size();) {
    FedNode& node = nodes_[i];
    if (!node.asked || node.client == nullptr) {
      ++i;
      continue;
    }
    const Result<std::size_t> free = node.client->FreeBytes();
    const Status status = !free.ok()              ? free.status()
                          : node.client->opened() ? node.client->BeginGrow(bytes)
                                                  : Status::Ok();
    if (!status.ok()) {
      TFOS_RETURN_IF_ERROR(Lose(i, status));
      continue;
    }
    node.free_bytes = *free;
    if (!found && node.open() && node.free_bytes >= bytes) found = i;
    ++i;
  }
  if (!found) return found;
  // A feeder that holds memory of one node must not wait for that of another one.
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    FedNode& node = nodes_[i];
    if (i == *found || !node.asked) continue;
    node.stopped = !node.wants_rows();
    node.asked = false;
    // It has given memory, too, and is not to take the feeder for one that has died.
    if (node.open() && node.free_bytes >= bytes) (void)node.client->End();
    node.client.reset();
  }
  return found;
}

}  // namespace tfos::feed
