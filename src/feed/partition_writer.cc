#include "feed/partition_writer.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/format.h"

namespace tfos::feed {
namespace {

/// A node that has memory answers at once. So long the others are waited for when one has it, so
/// that a partition of a few chunks is spread over all.
constexpr std::chrono::milliseconds kPatienceWithOthers{50};

std::string NodeNames(const std::vector<Endpoint>& endpoints) {
  std::string names;
  for (const Endpoint& endpoint : endpoints) {
    names +=
        fmt::format("{}node {} on {}", names.empty() ? "" : ", ", endpoint.node_id, endpoint.host);
  }
  return names;
}

}  // namespace

Result<std::unique_ptr<PartitionWriter>> PartitionWriter::Open(PartitionWriterOptions options) {
  if (options.endpoints.empty()) {
    return Status(ErrorKind::kBadInput, "there is no node to feed");
  }
  const bool train = options.session.mode == Mode::kTrain;
  std::unique_ptr<PartitionWriter> writer(new PartitionWriter(std::move(options)));
  if (train) {
    TFOS_RETURN_IF_ERROR(writer->FindNodes());
    TFOS_RETURN_IF_ERROR(writer->OpenNodes());
  } else {
    TFOS_RETURN_IF_ERROR(writer->OpenOneNode(Where::kThisHost));
    if (writer->nodes_.empty()) TFOS_RETURN_IF_ERROR(writer->OpenOneNode(Where::kAnywhere));
    if (writer->nodes_.empty()) return writer->Unreachable();
  }
  return writer;
}

Status PartitionWriter::Unreachable() const {
  return unreachable_.Annotate(
      fmt::format("feed partition {}: no node could be reached", options_.session.key.partition));
}

Status PartitionWriter::FindNodes() {
  std::vector<Node> near;
  std::vector<Node> far;
  for (const Endpoint& endpoint : options_.endpoints) {
    // All of them, and whatever the attempt's number: Spark counts from 0 again when it repeats a
    // stage, and an earlier attempt may have run on another host.
    Result<std::unique_ptr<FeedClient>> client = Connect(endpoint);
    Status status = client.status();
    std::uint64_t accepted_bytes = 0;
    if (status.ok()) {
      const Result<Counted> counted =
          (*client)->Count(options_.session.key, options_.session.attempt);
      status = counted.status();
      if (counted.ok()) {
        delivered_.Add(counted->ranges);
        accepted_bytes = counted->accepted_bytes;
      }
    }
    if (status.ok()) {
      std::vector<Node>& nodes = (*client)->shares_memory() ? near : far;
      nodes.push_back({.endpoint = endpoint,
                       .client = std::move(client).value(),
                       .accepted_bytes = accepted_bytes});
    } else if (status.kind() == ErrorKind::kReconnect) {
      // A node that is done has taken what it wanted; nothing more is known of it.
      unreachable_ = status;
    } else {
      return status;
    }
  }
  nodes_ = std::move(near);
  if (nodes_.empty() && !far.empty()) {
    if (far.size() > options_.most_remote_nodes) {
      far.erase(far.begin() + static_cast<std::ptrdiff_t>(options_.most_remote_nodes), far.end());
    }
    nodes_ = std::move(far);
  }
  return Status::Ok();
}

Result<std::unique_ptr<FeedClient>> PartitionWriter::Connect(const Endpoint& endpoint) const {
  return FeedClient::Connect(
      endpoint, options_.token,
      {.progress_timeout = options_.progress_timeout, .check = options_.check},
      Deadline::After(options_.progress_timeout));
}

Status PartitionWriter::OpenNodes() {
  // They are not waited for one by one: one that has no memory left may be waiting for rows of
  // another one that has.
  for (std::size_t i = 0; i < nodes_.size();) {
    if (!nodes_[i].wants_rows()) {
      ++i;
      continue;
    }
    const Status status = BeginOpen(nodes_[i]);
    if (status.ok()) {
      ++i;
    } else {
      TFOS_RETURN_IF_ERROR(LeaveOut(i, status));
    }
  }
  return nodes_.empty() ? Unreachable() : AwaitAnswer();
}

Status PartitionWriter::BeginOpen(Node& node) {
  if (node.client == nullptr) {
    TFOS_ASSIGN_OR_RETURN(node.client, Connect(node.endpoint));
  }
  return node.client->BeginOpen(options_.session);
}

Status PartitionWriter::LeaveOut(std::size_t node, const Status& status) {
  if (status.kind() != ErrorKind::kReconnect) return status;
  unreachable_ = status;
  nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(node));
  return Status::Ok();
}

Status PartitionWriter::OpenOneNode(Where where) {
  for (Endpoint endpoint : options_.endpoints) {
    if (where == Where::kThisHost) endpoint.port = 0;  // Leaves the Unix socket only.
    Result<std::unique_ptr<FeedClient>> client = Connect(endpoint);
    const Status status =
        client.ok() ? (*client)->Open(options_.session).status() : client.status();
    if (status.ok()) {
      nodes_.push_back({.endpoint = endpoint, .client = std::move(client).value()});
      return Status::Ok();
    }
    if (status.kind() != ErrorKind::kReconnect) return status;
    unreachable_ = status;
  }
  return Status::Ok();
}

Status PartitionWriter::AwaitAnswer() {
  Deadline deadline = Deadline::After(options_.progress_timeout);
  const Deadline others = Deadline::After(kPatienceWithOthers);
  while (true) {
    std::size_t opened = 0;
    std::size_t answered = 0;
    for (Node& node : nodes_) {
      if (node.wants_rows()) {
        TFOS_RETURN_IF_ERROR(node.client->FreeBytes().status());  // Reads what has come.
      }
      const bool open = node.wants_rows() && node.client->opened();
      opened += open;
      answered += open || !node.wants_rows();
    }
    if (answered == nodes_.size() || (opened > 0 && others.passed())) return Status::Ok();
    const Status word = WaitForWord(opened > 0 ? others.Min(deadline) : deadline);
    if (word.ok()) {
      deadline = Deadline::After(options_.progress_timeout);
    } else if (opened == 0 || word.kind() != ErrorKind::kRetryLater) {
      return word;
    }
  }
}

Result<std::span<std::byte>> PartitionWriter::Reserve(std::size_t bytes) {
  if (ended_) return Status(ErrorKind::kBadInput, "a chunk after the end of the partition");
  if (alone_) {
    if (bytes > largest_region_) return ReserveAlone(bytes);
    TFOS_RETURN_IF_ERROR(LeaveNodes());
    alone_ = false;
    TFOS_RETURN_IF_ERROR(OpenNodes());
  }
  const bool train = options_.session.mode == Mode::kTrain;
  Deadline deadline = Deadline::After(options_.progress_timeout);
  std::vector<BalanceCandidate> candidates;
  std::vector<std::size_t> node_of_candidate;
  while (!stopped()) {
    candidates.clear();
    node_of_candidate.clear();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (!node.wants_rows()) continue;
      TFOS_ASSIGN_OR_RETURN(const std::uint64_t free, node.client->FreeBytes());
      if (!node.client->opened()) continue;
      node.capacity_bytes = std::max(node.capacity_bytes, free);
      largest_region_ = std::max(largest_region_, node.capacity_bytes);
      candidates.push_back({.free_bytes = free,
                            .capacity_bytes = node.capacity_bytes,
                            .accepted_bytes = node.accepted_bytes});
      node_of_candidate.push_back(i);
    }
    if (train && !candidates.empty() && bytes > largest_region_) return ReserveAlone(bytes);
    const BalanceChoice choice = ChooseNode(candidates, bytes);
    if (choice.action == BalanceChoice::Action::kSend) {
      reserved_ = node_of_candidate[choice.index];
      TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room,
                            nodes_[reserved_].client->Reserve(bytes));
      if (!room.empty()) return room;
      continue;  // It has stopped meanwhile; perhaps another one has not.
    }
    if (stopped()) break;
    TFOS_RETURN_IF_ERROR(WaitForWord(deadline));
    deadline = Deadline::After(options_.progress_timeout);
  }
  return std::span<std::byte>();
}

Result<std::span<std::byte>> PartitionWriter::ReserveAlone(std::size_t bytes) {
  TFOS_RETURN_IF_ERROR(LeaveNodes());
  alone_ = true;
  SessionOptions session = options_.session;
  session.region_bytes = 1;  // Next to nothing: it grows to the chunk's size at once.
  while (!stopped()) {
    std::size_t least = nodes_.size();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].wants_rows() &&
          (least == nodes_.size() || nodes_[i].accepted_bytes < nodes_[least].accepted_bytes)) {
        least = i;
      }
    }
    Node& node = nodes_[least];
    Result<std::unique_ptr<FeedClient>> client = Connect(node.endpoint);
    const Status status = client.ok() ? (*client)->Open(session).status() : client.status();
    if (!status.ok()) {
      TFOS_RETURN_IF_ERROR(LeaveOut(least, status));
      if (nodes_.empty()) return Unreachable();
      continue;
    }
    node.client = std::move(client).value();
    TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, node.client->Reserve(bytes));
    reserved_ = least;
    if (!room.empty()) return room;
    node.stopped = true;  // Perhaps another one has not.
    node.client.reset();
  }
  return std::span<std::byte>();
}

Status PartitionWriter::LeaveNodes() {
  TFOS_RETURN_IF_ERROR(Finish().status());
  for (Node& node : nodes_) {
    node.stopped = !node.wants_rows();
    node.client.reset();
  }
  ended_ = false;
  return Status::Ok();
}

Status PartitionWriter::WaitForWord(const Deadline& deadline) const {
  std::vector<pollfd> sockets;
  for (const Node& node : nodes_) {
    if (node.wants_rows()) {
      sockets.push_back({.fd = node.client->fd(), .events = POLLIN, .revents = 0});
    }
  }
  while (true) {
    const int milliseconds = Deadline::After(kCheckInterval).Min(deadline).PollMilliseconds();
    const int ready = ::poll(sockets.data(), sockets.size(), milliseconds);
    if (ready > 0) return Status::Ok();
    if (ready < 0 && errno != EINTR) return Status::FromErrno(errno, "wait for the nodes");
    if (options_.check) TFOS_RETURN_IF_ERROR(options_.check());
    if (deadline.passed()) {
      return Status(
          ErrorKind::kRetryLater,
          fmt::format("no row of partition {} was taken for {:.3g} s: the programs are not reading "
                      "({})",
                      options_.session.key.partition,
                      std::chrono::duration<double>(options_.progress_timeout).count(),
                      NodeNames(options_.endpoints)));
    }
  }
}

Status PartitionWriter::Commit(std::size_t bytes, const ItemRange& items) {
  Node& node = nodes_[reserved_];
  TFOS_RETURN_IF_ERROR(node.client->Commit(bytes, items));
  node.accepted_bytes += bytes;
  items_sent_ += items.items();
  // Its memory is for others once the chunk is consumed, however long the next row takes.
  return alone_ ? LeaveNodes() : Status::Ok();
}

Result<std::optional<ResultChunk>> PartitionWriter::TakeResult(bool block) {
  return nodes_.front().client->TakeResult(block);
}

Status PartitionWriter::End() {
  ended_ = true;
  for (Node& node : nodes_) {
    if (node.client == nullptr) continue;
    if (node.client->opened() || node.client->stopped()) {
      TFOS_RETURN_IF_ERROR(node.client->End());
    } else {
      node.client.reset();  // It never had memory for this partition, and got nothing of it.
    }
  }
  return Status::Ok();
}

Result<Ended> PartitionWriter::Finish() {
  TFOS_RETURN_IF_ERROR(End());
  Ended all{.accepted_items = items_sent_};
  for (Node& node : nodes_) {
    if (node.client == nullptr) continue;
    TFOS_ASSIGN_OR_RETURN(const Ended ended, node.client->Finish());
    all.result_rows += ended.result_rows;
  }
  all.stopped = stopped();
  return all;
}

bool PartitionWriter::stopped() const {
  return !nodes_.empty() && std::none_of(nodes_.begin(), nodes_.end(),
                                         [](const Node& node) { return node.wants_rows(); });
}

}  // namespace tfos::feed
