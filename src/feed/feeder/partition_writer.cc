#include "feed/feeder/partition_writer.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/time/seconds_text.h"
#include "feed/wire/frame.h"
#include "feed/wire/read_position.h"

namespace tfos::feed {
namespace {

/// A node that has memory answers at once. So long the others are waited for when one has it, so
/// that a partition of a few chunks is spread over all.
constexpr std::chrono::milliseconds kPatienceWithOthers{50};
/// So long the nodes of this host may have no room for a chunk before it goes to another host.
constexpr std::chrono::milliseconds kPatienceAtHome{200};
/// Between two questions to nodes of other hosts, how much they have got.
constexpr std::chrono::milliseconds kCountInterval{100};

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
  TFOS_ASSIGN_OR_RETURN(const Nonce random, RandomNonce());
  std::memcpy(&options.session.attempt.id, random.data(), sizeof options.session.attempt.id);
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
  std::vector<Node> remote;
  for (const Endpoint& endpoint : options_.endpoints) {
    // All of them, and whatever the attempt's number: Spark counts from 0 again when it repeats a
    // stage, and an earlier attempt may have run on another host.
    Node node;
    node.endpoint = endpoint;
    const Result<Counted> counted = Count(node);
    const Status& status = counted.status();
    if (status.ok()) {
      delivered_.Add(counted->ranges);
      node.remote = !node.client->shares_memory();
      (node.remote ? remote : nodes_).push_back(std::move(node));
    } else if (status.kind() == ErrorKind::kReconnect) {
      // A node that is done has taken what it wanted; nothing more is known of it.
      unreachable_ = status;
    } else {
      return status;
    }
  }
  // In the order of preference, but for what they have got.
  std::ranges::stable_sort(remote, {}, &Node::accepted_bytes);
  for (std::size_t i = 0; i < remote.size(); ++i) {
    // The others are connected to again should they be needed.
    if (i >= options_.most_remote_nodes) remote[i].client.reset();
    nodes_.push_back(std::move(remote[i]));
  }
  return Status::Ok();
}

Result<Counted> PartitionWriter::Count(Node& node) {
  if (node.client == nullptr) {
    TFOS_ASSIGN_OR_RETURN(node.client, Connect(node.endpoint));
  }
  TFOS_ASSIGN_OR_RETURN(Counted counted,
                        node.client->Count(options_.session.key, options_.session.attempt));
  node.accepted_bytes = counted.accepted_bytes;
  return counted;
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
  TFOS_RETURN_IF_ERROR(AskHere());
  const auto any_asked = [&] { return std::ranges::any_of(nodes_, &Node::asked); };
  while (!nodes_.empty() && !stopped() && !any_asked()) {
    TFOS_RETURN_IF_ERROR(AskAbroad(options_.most_remote_nodes));
  }
  return nodes_.empty() ? Unreachable() : AwaitAnswer();
}

Status PartitionWriter::AskHere() {
  for (std::size_t i = 0; i < nodes_.size();) {
    const std::size_t before = nodes_.size();
    if (!nodes_[i].remote && !nodes_[i].asked && nodes_[i].wants_rows()) {
      TFOS_RETURN_IF_ERROR(Ask(i));
    }
    if (nodes_.size() == before) ++i;
  }
  return Status::Ok();
}

Status PartitionWriter::AskAbroad(std::size_t count) {
  asked_abroad_at_ = Clock::Steady().Now();
  for (; count > 0; --count) {
    std::size_t least = nodes_.size();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      if (node.remote && !node.asked && node.wants_rows() &&
          (least == nodes_.size() || node.accepted_bytes < nodes_[least].accepted_bytes)) {
        least = i;
      }
    }
    if (least == nodes_.size()) return Status::Ok();
    TFOS_RETURN_IF_ERROR(Ask(least));
  }
  return Status::Ok();
}

Status PartitionWriter::Ask(std::size_t index) {
  Node& node = nodes_[index];
  if (node.client == nullptr) {
    Result<std::unique_ptr<FeedClient>> client = Connect(node.endpoint);
    if (!client.ok()) return LeaveOut(index, client.status());
    node.client = std::move(*client);
  }
  if (const Status status = node.client->BeginOpen(options_.session); !status.ok()) {
    return LeaveOut(index, status);
  }
  node.asked = true;
  return Status::Ok();
}

Status PartitionWriter::LeaveOut(std::size_t node, const Status& status) {
  if (status.kind() != ErrorKind::kReconnect) return status;
  unreachable_ = status;
  nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(node));
  return Status::Ok();
}

Status PartitionWriter::Lose(std::size_t node, const Status& status) {
  if (status.kind() != ErrorKind::kReconnect) return status;
  if (nodes_[node].fed) {
    if (!options_.session.until_read) return status;
    std::unique_ptr<FeedClient> client = std::move(nodes_[node].client);
    for (UnreadChunk& chunk : client->Unread()) unread_.push_back(chunk);
    lost_.push_back(std::move(client));
  }
  TFOS_RETURN_IF_ERROR(LeaveOut(node, status));
  return nodes_.empty() ? Unreachable() : Status::Ok();
}

template <typename Call>
Status PartitionWriter::ForEach(Call call) {
  for (std::size_t i = 0; i < nodes_.size();) {
    if (const Status status = call(nodes_[i]); !status.ok()) {
      TFOS_RETURN_IF_ERROR(Lose(i, status));
    } else {
      ++i;
    }
  }
  return Status::Ok();
}

Status PartitionWriter::OpenOneNode(Where where) {
  for (Endpoint endpoint : options_.endpoints) {
    if (where == Where::kThisHost) endpoint.port = 0;  // Leaves the Unix socket only.
    Result<std::unique_ptr<FeedClient>> client = Connect(endpoint);
    const Status status =
        client.ok() ? (*client)->Open(options_.session).status() : client.status();
    if (status.ok()) {
      Node& node = nodes_.emplace_back();
      node.endpoint = endpoint;
      node.client = std::move(client).value();
      node.asked = true;
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
    TFOS_RETURN_IF_ERROR(ForEach([](Node& node) {
      return node.asked && node.wants_rows() ? node.client->FreeBytes().status() : Status::Ok();
    }));
    const auto opened = std::ranges::count_if(nodes_, &Node::open);
    const bool all_answered = std::ranges::none_of(
        nodes_, [](const Node& node) { return node.asked && node.wants_rows() && !node.open(); });
    if (all_answered || (opened > 0 && others.passed())) return Status::Ok();
    TFOS_ASSIGN_OR_RETURN(const bool word,
                          WaitForWord(opened > 0 ? others.Min(deadline) : deadline));
    if (word) {
      deadline = Deadline::After(options_.progress_timeout);
    } else if (opened == 0) {
      return NobodyReads();
    }
  }
}

Result<std::span<std::byte>> PartitionWriter::Reserve(std::size_t bytes) {
  TFOS_RETURN_IF_ERROR(Resend());
  TFOS_ASSIGN_OR_RETURN(room_, ReserveRoom(bytes));
  return room_;
}

Result<std::span<std::byte>> PartitionWriter::ReserveRoom(std::size_t bytes) {
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
    // In this order: who has been told that another attempt took over must not ask any more.
    TFOS_RETURN_IF_ERROR(ReadRoom());
    if (train) TFOS_RETURN_IF_ERROR(LookAbroad());
    candidates.clear();
    node_of_candidate.clear();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      Node& node = nodes_[i];
      if (!node.asked || !node.open()) continue;
      node.capacity_bytes = std::max(node.capacity_bytes, node.free_bytes);
      largest_region_ = std::max(largest_region_, node.capacity_bytes);
      candidates.push_back({.free_bytes = node.free_bytes,
                            .capacity_bytes = node.capacity_bytes,
                            .accepted_bytes = node.accepted_bytes,
                            .remote = node.remote});
      node_of_candidate.push_back(i);
    }
    if (train && !candidates.empty() && bytes > largest_region_) return ReserveAlone(bytes);
    const Clock::TimePoint now = Clock::Steady().Now();
    const bool anywhere = waiting_since_ && now - *waiting_since_ >= kPatienceAtHome;
    const BalanceChoice choice = ChooseNode(candidates, bytes, anywhere);
    if (choice.action == BalanceChoice::Action::kSend) {
      reserved_ = node_of_candidate[choice.index];
      if (train && nodes_[reserved_].accepted_bytes > 0) {
        TFOS_ASSIGN_OR_RETURN(const bool waited, AwaitBeginners());
        if (waited) continue;
      }
      if (!nodes_[reserved_].remote) waiting_since_.reset();
      const Result<std::span<std::byte>> room = nodes_[reserved_].client->Reserve(bytes);
      if (!room.ok()) {
        TFOS_RETURN_IF_ERROR(Lose(reserved_, room.status()));
      } else if (!room->empty()) {
        return room;
      }
      continue;  // It has stopped or gone meanwhile; perhaps another one has not.
    }
    if (stopped()) break;
    waiting_since_ = waiting_since_.value_or(now);
    const bool look_again = std::ranges::any_of(nodes_, &Node::remote);
    const Deadline patience = look_again ? Deadline::After(kPatienceAtHome) : deadline;
    TFOS_ASSIGN_OR_RETURN(const bool word, WaitForWord(patience.Min(deadline)));
    if (word) {
      deadline = Deadline::After(options_.progress_timeout);
    } else if (deadline.passed()) {
      return NobodyReads();
    }
  }
  return std::span<std::byte>();
}

Result<bool> PartitionWriter::AwaitBeginners() {
  if (std::ranges::none_of(nodes_, &Node::beginning)) return false;
  TFOS_ASSIGN_OR_RETURN(const bool word, WaitForWord(Deadline::After(kPatienceAtHome)));
  if (word) return true;
  // Its memory may be with feeders that wait in turn for a node whose memory is with this one. Then
  // it has got rows of theirs by now.
  for (Node& node : nodes_) {
    if (!node.beginning()) continue;
    Node asked_again;
    asked_again.endpoint = node.endpoint;
    const Result<Counted> counted = Count(asked_again);
    if (counted.ok()) {
      node.accepted_bytes = std::max(node.accepted_bytes, counted->accepted_bytes);
    } else if (counted.status().kind() == ErrorKind::kReconnect) {
      node.silent = true;
    } else {
      return counted.status();
    }
  }
  return true;
}

Status PartitionWriter::ReadRoom() {
  return ForEach([](Node& node) -> Status {
    if (!node.asked || !node.wants_rows()) return Status::Ok();
    TFOS_ASSIGN_OR_RETURN(node.free_bytes, node.client->FreeBytes());
    node.accepted_bytes = std::max(node.accepted_bytes, node.client->accepted_bytes().value_or(0));
    return Status::Ok();
  });
}

Status PartitionWriter::LookAbroad() {
  std::optional<std::uint64_t> accepted_here;
  std::optional<std::uint64_t> accepted_abroad;  // By those that were asked.
  std::size_t asked_abroad = 0;
  std::size_t without_rows = 0;  // Of those.
  bool any_left = false;
  for (const Node& node : nodes_) {
    if (!node.wants_rows()) continue;
    if (!node.remote) {
      accepted_here = std::min(accepted_here.value_or(node.accepted_bytes), node.accepted_bytes);
    } else if (node.asked) {
      accepted_abroad =
          std::min(accepted_abroad.value_or(node.accepted_bytes), node.accepted_bytes);
      ++asked_abroad;
      if (node.accepted_bytes == 0) ++without_rows;
    } else {
      any_left = true;
    }
  }
  if (!any_left) return Status::Ok();
  if (!accepted_here && asked_abroad == 0) return AskAbroad(options_.most_remote_nodes);
  const Clock::TimePoint now = Clock::Steady().Now();
  const bool waiting = waiting_since_ && now - *waiting_since_ >= kPatienceAtHome;
  // Another one each time that waiting has not helped: what all wait for may be its rows.
  if (waiting && now - asked_abroad_at_ >= kPatienceAtHome) return AskAbroad(1);
  const std::optional<std::uint64_t> accepted = accepted_here ? accepted_here : accepted_abroad;
  if (!accepted) return Status::Ok();
  return AskLaggard(*accepted, /*at_once=*/without_rows < options_.most_remote_nodes);
}

Status PartitionWriter::AskLaggard(std::uint64_t accepted_by_others, bool at_once) {
  // What was heard of them at the start says little by now; of nodes without a row it is worth
  // asking at once, as small data is soon over.
  const Clock::TimePoint now = Clock::Steady().Now();
  const bool due = !counted_at_ || now - *counted_at_ >= kCountInterval;
  std::size_t laggard = nodes_.size();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const bool now_or_never = at_once && node.accepted_bytes == 0;
    if (node.remote && !node.asked && node.wants_rows() && (due || now_or_never) &&
        LagsBehind(node.accepted_bytes, accepted_by_others) &&
        (laggard == nodes_.size() || node.accepted_bytes < nodes_[laggard].accepted_bytes)) {
      laggard = i;
    }
  }
  if (laggard == nodes_.size()) return Status::Ok();
  counted_at_ = now;
  const Result<Counted> counted = Count(nodes_[laggard]);
  if (!counted.ok()) return LeaveOut(laggard, counted.status());
  if (LagsBehind(counted->accepted_bytes, accepted_by_others)) return Ask(laggard);
  // There may be many nodes, and as many feeders with a connection to each.
  nodes_[laggard].client.reset();
  return Status::Ok();
}

Result<std::span<std::byte>> PartitionWriter::ReserveAlone(std::size_t bytes) {
  TFOS_RETURN_IF_ERROR(LeaveNodes());
  alone_ = true;
  SessionOptions session = options_.session;
  session.region_bytes = 1;  // Next to nothing: it grows to the chunk's size at once.
  while (!stopped()) {
    // Of those with least the first: one of this host, if there is.
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
    node.asked = true;
    const Result<std::span<std::byte>> room = node.client->Reserve(bytes);
    if (!room.ok()) {
      TFOS_RETURN_IF_ERROR(Lose(least, room.status()));
      continue;
    }
    reserved_ = least;
    if (!room->empty()) return room;
    node.stopped = true;  // Perhaps another one has not.
    node.asked = false;
    node.client.reset();
  }
  return std::span<std::byte>();
}

Status PartitionWriter::EndSessions() {
  TFOS_RETURN_IF_ERROR(SayEnd());
  return AwaitEnd();
}

Status PartitionWriter::SayEnd() {
  ended_ = true;
  return ForEach([](Node& node) -> Status {
    if (node.client == nullptr) return Status::Ok();
    if (node.asked && (node.client->opened() || node.client->stopped())) return node.client->End();
    node.client.reset();  // It never had memory for this partition, and got nothing of it.
    return Status::Ok();
  });
}

Status PartitionWriter::AwaitEnd() {
  return ForEach([this](Node& node) -> Status {
    if (node.client == nullptr) return Status::Ok();
    TFOS_ASSIGN_OR_RETURN(const Ended ended, node.client->Finish());
    result_rows_ += ended.result_rows;
    return Status::Ok();
  });
}

Status PartitionWriter::LeaveNodes() {
  TFOS_RETURN_IF_ERROR(EndSessions());
  for (Node& node : nodes_) {
    node.stopped = !node.wants_rows();
    node.asked = false;
    node.client.reset();
  }
  ended_ = false;
  return Status::Ok();
}

Result<bool> PartitionWriter::WaitForWord(const Deadline& deadline) const {
  std::vector<pollfd> sockets;
  for (const Node& node : nodes_) {
    if (node.asked && node.wants_rows()) {
      sockets.push_back({.fd = node.client->fd(), .events = POLLIN, .revents = 0});
    }
  }
  while (true) {
    const int milliseconds = Deadline::After(kCheckInterval).Min(deadline).PollMilliseconds();
    const int ready = ::poll(sockets.data(), sockets.size(), milliseconds);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return Status::FromErrno(errno, "wait for the nodes");
    if (options_.check) TFOS_RETURN_IF_ERROR(options_.check());
    if (deadline.passed()) return false;
  }
}

Status PartitionWriter::NobodyReads() const {
  return {ErrorKind::kRetryLater,
          fmt::format("no row of partition {} was taken for {}: the programs are not reading "
                      "({})",
                      options_.session.key.partition, SecondsText(options_.progress_timeout),
                      NodeNames(options_.endpoints))};
}

Status PartitionWriter::Commit(std::size_t bytes, const ItemRange& items) {
  KeepSample(bytes);
  TFOS_RETURN_IF_ERROR(CommitChunk(bytes, items, 0));
  items_sent_ += items.items();
  return Status::Ok();
}

Status PartitionWriter::CommitChunk(std::size_t bytes, const ItemRange& items,
                                    std::uint64_t rows_read) {
  Node& node = nodes_[reserved_];
  node.fed = true;
  if (const Status status = node.client->Commit(bytes, items, rows_read); !status.ok()) {
    return Lose(reserved_, status);
  }
  node.accepted_bytes += bytes;
  // Its memory is for others once the chunk is consumed, however long the next row takes.
  return alone_ ? LeaveNodes() : Status::Ok();
}

void PartitionWriter::KeepSample(std::size_t bytes) {
  if (options_.session.mode != Mode::kTrain || !sample_.empty()) return;
  const Node* const fed = &nodes_[reserved_];
  const bool wanted = std::ranges::any_of(nodes_, [&](const Node& node) {
    return &node != fed && node.accepted_bytes == 0 && node.wants_rows();
  });
  if (wanted) sample_.assign(room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(bytes));
}

Status PartitionWriter::SendSamples() {
  const std::vector<std::byte> sample = std::exchange(sample_, {});
  if (sample.empty()) return Status::Ok();
  for (Node& node : nodes_) {
    if (node.accepted_bytes > 0 || !node.wants_rows()) continue;
    // A node that is gone needs none.
    const Status status = SendSample(node, sample);
    if (!status.ok() && status.kind() != ErrorKind::kReconnect) return status;
  }
  return Status::Ok();
}

Status PartitionWriter::SendSample(Node& node, std::span<const std::byte> sample) {
  Node sampled;  // With a connection of its own, as the node's session has ended.
  sampled.endpoint = node.endpoint;
  TFOS_ASSIGN_OR_RETURN(const Counted counted, Count(sampled));
  node.accepted_bytes = counted.accepted_bytes;
  if (node.accepted_bytes > 0) return Status::Ok();
  SessionOptions session = options_.session;
  session.region_bytes = sample.size();
  session.until_read = false;
  session.replay = {};
  TFOS_RETURN_IF_ERROR(sampled.client->Open(session).status());
  TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, sampled.client->Reserve(sample.size()));
  if (room.empty()) return Status::Ok();  // It wants no more rows.
  std::memcpy(room.data(), sample.data(), sample.size());
  TFOS_RETURN_IF_ERROR(sampled.client->Commit(sample.size(), {0, 0}, ReadTracker::kAllRows));
  return sampled.client->Finish().status();
}

Status PartitionWriter::Resend() {
  while (!unread_.empty()) {
    const UnreadChunk chunk = unread_.front();
    TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, ReserveRoom(chunk.bytes.size()));
    if (room.empty()) break;  // Nobody wants rows any more.
    std::memcpy(room.data(), chunk.bytes.data(), chunk.bytes.size());
    unread_.pop_front();
    TFOS_RETURN_IF_ERROR(CommitChunk(chunk.bytes.size(), chunk.items, chunk.rows_read));
    moved_items_ += chunk.items.items();
  }
  unread_.clear();
  lost_.clear();
  return Status::Ok();
}

Result<std::optional<ResultChunk>> PartitionWriter::TakeResult(bool block) {
  return nodes_.front().client->TakeResult(block);
}

Status PartitionWriter::End() {
  ended_ = true;
  return ForEach([](Node& node) { return node.client->End(); });
}

Result<Ended> PartitionWriter::Finish() {
  TFOS_RETURN_IF_ERROR(SayEnd());
  // Before the wait: the other nodes' programs may wait for those without a row, which wait to
  // learn what rows hold.
  // What a lost node leaves may be the first rows of another one.
  if (unread_.empty()) TFOS_RETURN_IF_ERROR(SendSamples());
  TFOS_RETURN_IF_ERROR(AwaitEnd());
  while (!unread_.empty() && !stopped()) {
    // The sessions of the others are over by now.
    TFOS_RETURN_IF_ERROR(LeaveNodes());
    TFOS_RETURN_IF_ERROR(OpenNodes());
    TFOS_RETURN_IF_ERROR(Resend());
    TFOS_RETURN_IF_ERROR(SayEnd());
    TFOS_RETURN_IF_ERROR(SendSamples());
    TFOS_RETURN_IF_ERROR(AwaitEnd());
  }
  return Ended{.accepted_items = items_sent_, .result_rows = result_rows_, .stopped = stopped()};
}

bool PartitionWriter::stopped() const {
  return !nodes_.empty() && std::none_of(nodes_.begin(), nodes_.end(),
                                         [](const Node& node) { return node.wants_rows(); });
}

}  // namespace tfos::feed
