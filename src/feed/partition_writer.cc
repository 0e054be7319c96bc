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
    if (writer->options_.session.attempt > 0) TFOS_RETURN_IF_ERROR(writer->CountDeliveredItems());
    TFOS_RETURN_IF_ERROR(writer->OpenNodes(Where::kThisHost, writer->options_.endpoints.size()));
    if (writer->nodes_.empty()) {
      writer->RotateEndpoints();
      TFOS_RETURN_IF_ERROR(writer->OpenNodes(Where::kAnywhere, writer->options_.most_remote_nodes));
    }
  } else {
    writer->RotateEndpoints();
    TFOS_RETURN_IF_ERROR(writer->OpenNodes(Where::kThisHost, 1));
    if (writer->nodes_.empty()) TFOS_RETURN_IF_ERROR(writer->OpenNodes(Where::kAnywhere, 1));
  }
  if (writer->nodes_.empty()) {
    return writer->unreachable_.Annotate(fmt::format("feed partition {}: no node could be reached",
                                                     writer->options_.session.key.partition));
  }
  TFOS_RETURN_IF_ERROR(writer->AwaitAnswer());
  return writer;
}

void PartitionWriter::RotateEndpoints() {
  std::vector<Endpoint>& endpoints = options_.endpoints;
  const std::size_t first = options_.session.key.partition % endpoints.size();
  std::rotate(endpoints.begin(), endpoints.begin() + static_cast<std::ptrdiff_t>(first),
              endpoints.end());
}

Status PartitionWriter::CountDeliveredItems() {
  SessionOptions question = options_.session;
  question.region_bytes = 1;  // No chunk will be sent.
  for (const Endpoint& endpoint : options_.endpoints) {
    auto client = Connect(endpoint);
    // A node that is done has taken what it wanted; nothing more is known of it.
    if (!client.ok() && client.status().kind() == ErrorKind::kReconnect) continue;
    TFOS_RETURN_IF_ERROR(client.status());
    TFOS_ASSIGN_OR_RETURN(const Opened opened, (*client)->Open(question));
    items_to_skip_ += opened.accepted_items;
  }
  return Status::Ok();
}

Result<std::unique_ptr<FeedClient>> PartitionWriter::Connect(const Endpoint& endpoint) const {
  return FeedClient::Connect(
      endpoint, options_.token,
      {.progress_timeout = options_.progress_timeout, .check = options_.check},
      Deadline::After(options_.progress_timeout));
}

Status PartitionWriter::OpenNodes(Where where, std::size_t most) {
  const bool train = options_.session.mode == Mode::kTrain;
  for (Endpoint endpoint : options_.endpoints) {
    if (nodes_.size() == most) break;
    if (where == Where::kThisHost) endpoint.port = 0;  // Leaves the Unix socket only.
    auto client = Connect(endpoint);
    Status status = client.status();
    if (status.ok()) {
      // In training the nodes are not waited for one by one: one that has no memory left may be
      // waiting for rows of another one that has.
      status = train ? (*client)->BeginOpen(options_.session)
                     : (*client)->Open(options_.session).status();
    }
    if (status.ok()) {
      nodes_.push_back({.client = std::move(client).value()});
    } else if (status.kind() == ErrorKind::kReconnect) {
      unreachable_ = status;
    } else {
      return status;
    }
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
      TFOS_RETURN_IF_ERROR(node.client->FreeBytes().status());  // Reads what has come.
      opened += node.client->opened();
      answered += node.client->opened() || node.client->stopped();
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
  Deadline deadline = Deadline::After(options_.progress_timeout);
  std::vector<BalanceCandidate> candidates;
  std::vector<std::size_t> node_of_candidate;
  while (!stopped()) {
    candidates.clear();
    node_of_candidate.clear();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      TFOS_ASSIGN_OR_RETURN(const std::uint64_t free, node.client->FreeBytes());
      if (!node.client->opened()) continue;
      node.capacity_bytes = std::max(node.capacity_bytes, free);
      candidates.push_back({.free_bytes = free,
                            .capacity_bytes = node.capacity_bytes,
                            .sent_bytes = node.sent_bytes});
      node_of_candidate.push_back(i);
    }
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

Status PartitionWriter::WaitForWord(const Deadline& deadline) const {
  std::vector<pollfd> sockets;
  for (const Node& node : nodes_) {
    if (!node.client->stopped()) {
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

Status PartitionWriter::Commit(std::size_t bytes, std::uint64_t items) {
  Node& node = nodes_[reserved_];
  TFOS_RETURN_IF_ERROR(node.client->Commit(bytes, items));
  node.sent_bytes += bytes;
  items_sent_ += items;
  return Status::Ok();
}

Result<std::optional<ResultChunk>> PartitionWriter::TakeResult(bool block) {
  return nodes_.front().client->TakeResult(block);
}

Status PartitionWriter::End() {
  // Nodes that never had memory for this partition got nothing of it.
  std::erase_if(nodes_,
                [](const Node& node) { return !node.client->opened() && !node.client->stopped(); });
  for (Node& node : nodes_) TFOS_RETURN_IF_ERROR(node.client->End());
  return Status::Ok();
}

Result<Ended> PartitionWriter::Finish() {
  TFOS_RETURN_IF_ERROR(End());
  Ended all{.accepted_items = items_sent_};
  for (Node& node : nodes_) {
    TFOS_ASSIGN_OR_RETURN(const Ended ended, node.client->Finish());
    all.result_rows += ended.result_rows;
  }
  all.stopped = stopped();
  return all;
}

bool PartitionWriter::stopped() const {
  return !nodes_.empty() && std::all_of(nodes_.begin(), nodes_.end(),
                                        [](const Node& node) { return node.client->stopped(); });
}

}  // namespace tfos::feed
