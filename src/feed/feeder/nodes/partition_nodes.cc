#include "feed/feeder/nodes/partition_nodes.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/time/seconds_text.h"
#include "feed/feeder/nodes/feed_balancer.h"
#include "feed/feeder/nodes/node_search.h"
#include "net/poll.h"

namespace tfos::feed {
namespace {

/// A node that has memory answers at once. When one has it, this is how long the others are waited
/// for, so that a partition of a few chunks is spread over all.
constexpr std::chrono::milliseconds kPatienceWithOthers{50};
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

bool PartitionNodes::stopped() const {
  return !nodes_.empty() && std::ranges::none_of(nodes_, &FedNode::wants_rows);
}

Status PartitionNodes::Unreachable() const {
  return unreachable_.Annotate(
      fmt::format("feed partition {}: no node could be reached", options_.session.key.partition));
}

Status PartitionNodes::Find(std::vector<AcceptedChunk>& delivered) {
  // All of them, also for what Spark calls the first attempt: Spark counts from 0 again when it
  // repeats a stage, and an earlier attempt may have run on another host.
  TFOS_ASSIGN_OR_RETURN(FoundNodes found, FindNodes(options_, fates_));
  // A node that is done has taken what it wanted; nothing more is known of it.
  std::string ended;
  for (const MissedNode& missed : found.missed) {
    ended += fmt::format("{}node {} on {} ({})", ended.empty() ? "" : ", ", missed.endpoint.node_id,
                         missed.endpoint.host, missed.cause.ToString());
  }
  if (!ended.empty()) {
    LogInfo("feed: partition {} does without {}", options_.session.key.partition, ended);
    unreachable_ = Status(ErrorKind::kReconnect, std::move(ended));
  }
  std::vector<FedNode> remote;
  for (FoundNode& answer : found.nodes) {
    delivered.insert(delivered.end(), answer.counted.chunks.begin(), answer.counted.chunks.end());
    FedNode node;
    node.endpoint = std::move(answer.endpoint);
    node.remote = !answer.client->shares_memory();
    node.client = std::move(answer.client);
    node.accepted = answer.counted.accepted;
    (node.remote ? remote : nodes_).push_back(std::move(node));
  }
  // Those that have got least come first, otherwise in the order of preference.
  std::ranges::stable_sort(remote, {}, &FedNode::accepted);
  for (std::size_t i = 0; i < remote.size(); ++i) {
    // The others are connected to again should they be needed.
    if (i >= options_.most_remote_nodes) remote[i].client.reset();
    nodes_.push_back(std::move(remote[i]));
  }
  return Status::Ok();
}

Result<Counted> PartitionNodes::Count(FedNode& node) const {
  if (node.client == nullptr) {
    TFOS_ASSIGN_OR_RETURN(node.client, Connect(node.endpoint));
  }
  TFOS_ASSIGN_OR_RETURN(
      Counted counted,
      node.client->Count(options_.session.key, options_.session.attempt, FeedClient::Ask::kBytes));
  node.accepted = counted.accepted;
  return counted;
}

Result<std::unique_ptr<FeedClient>> PartitionNodes::Connect(const Endpoint& endpoint) const {
  return FeedClient::Connect(endpoint, options_.key,
                             {.progress_timeout = options_.progress_timeout,
                              .encryption = options_.encryption,
                              .number = options_.session.key.partition,
                              .check = options_.check},
                             Deadline::After(options_.connect_timeout));
}

Status PartitionNodes::Open() {
  // They are not waited for one by one: one that has no memory left may be waiting for rows of
  // another one that has.
  TFOS_RETURN_IF_ERROR(AskHere());
  const auto any_asked = [&] { return std::ranges::any_of(nodes_, &FedNode::asked); };
  while (!nodes_.empty() && !stopped() && !any_asked()) {
    TFOS_RETURN_IF_ERROR(AskAbroad(options_.most_remote_nodes));
  }
  return nodes_.empty() ? Unreachable() : AwaitAnswer();
}

Status PartitionNodes::AskHere() {
  for (std::size_t i = 0; i < nodes_.size();) {
    const std::size_t before = nodes_.size();
    if (!nodes_[i].remote && !nodes_[i].asked && nodes_[i].wants_rows()) {
      TFOS_RETURN_IF_ERROR(Ask(i, options_.session));
    }
    if (nodes_.size() == before) ++i;
  }
  return Status::Ok();
}

Status PartitionNodes::AskAbroad(std::size_t count) {
  asked_abroad_at_ = Clock::Steady().Now();
  for (; count > 0; --count) {
    std::size_t least = nodes_.size();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const FedNode& node = nodes_[i];
      if (node.remote && !node.asked && node.wants_rows() &&
          (least == nodes_.size() || node.accepted < nodes_[least].accepted)) {
        least = i;
      }
    }
    if (least == nodes_.size()) return Status::Ok();
    TFOS_RETURN_IF_ERROR(Ask(least, options_.session));
  }
  return Status::Ok();
}

Status PartitionNodes::Ask(std::size_t index, const SessionOptions& session) {
  FedNode& node = nodes_[index];
  if (node.client == nullptr) {
    Result<std::unique_ptr<FeedClient>> client = Connect(node.endpoint);
    if (!client.ok()) return LeaveOut(index, client.status());
    node.client = std::move(*client);
  }
  if (const Status status = node.client->BeginOpen(session); !status.ok()) {
    return LeaveOut(index, status);
  }
  node.asked = true;
  return Status::Ok();
}

Status PartitionNodes::LeaveOut(std::size_t node, const Status& status) {
  if (status.kind() != ErrorKind::kReconnect) return status;
  TFOS_RETURN_IF_ERROR(fates_.AwaitEnd(nodes_[node].endpoint, status));
  Erase(node, status);
  return nodes_.empty() ? Unreachable() : Status::Ok();
}

void PartitionNodes::Erase(std::size_t node, const Status& status) {
  unreachable_ = status;
  nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(node));
}

Status PartitionNodes::Lose(std::size_t node, const Status& status) {
  if (status.kind() != ErrorKind::kReconnect) return status;
  if (nodes_[node].fed && !options_.session.until_read && !options_.bears_losses) return status;
  // While it runs it goes on reading, so only then is it known what it has left.
  TFOS_RETURN_IF_ERROR(fates_.AwaitEnd(nodes_[node].endpoint, status));
  if (nodes_[node].fed && options_.session.until_read) {
    std::unique_ptr<FeedClient> client = std::move(nodes_[node].client);
    for (UnreadChunk& chunk : client->Unread()) unread_.push_back(chunk);
    lost_.push_back(std::move(client));
  }
  Erase(node, status);
  return nodes_.empty() ? Unreachable() : Status::Ok();
}

template <typename Call>
Status PartitionNodes::ForEach(Call call) {
  for (std::size_t i = 0; i < nodes_.size();) {
    if (const Status status = call(nodes_[i]); !status.ok()) {
      TFOS_RETURN_IF_ERROR(Lose(i, status));
    } else {
      ++i;
    }
  }
  return Status::Ok();
}

Status PartitionNodes::OpenOne(Where where) {
  for (Endpoint endpoint : options_.endpoints) {
    if (where == Where::kThisHost) endpoint.port = 0;  // Leaves the Unix socket only.
    Result<std::unique_ptr<FeedClient>> client = Connect(endpoint);
    const Status status =
        client.ok() ? (*client)->Open(options_.session).status() : client.status();
    if (status.ok()) {
      FedNode& node = nodes_.emplace_back();
      node.endpoint = endpoint;
      node.client = std::move(client).value();
      node.asked = true;
      return Status::Ok();
    }
    if (status.kind() != ErrorKind::kReconnect) return status;
    if (where == Where::kAnywhere) {
      LogWarning("feed: partition {} asks another node, as this one can't be reached: {}",
                 options_.session.key.partition, status.ToString());
    }
    unreachable_ = status;
  }
  return Status::Ok();
}

Status PartitionNodes::AwaitAnswer() {
  // No longer: what a node waits for that has no memory may be rows of this partition, at a node
  // of another host.
  const Deadline first = Within(kPatienceAtHome);
  const Deadline others = Within(kPatienceWithOthers);
  while (true) {
    TFOS_RETURN_IF_ERROR(ForEach([](FedNode& node) {
      return node.asked && node.wants_rows() ? node.client->FreeBytes().status() : Status::Ok();
    }));
    const auto opened = std::ranges::count_if(nodes_, &FedNode::open);
    const bool all_answered = std::ranges::none_of(nodes_, [](const FedNode& node) {
      return node.asked && node.wants_rows() && !node.open();
    });
    const Deadline& deadline = opened > 0 ? others : first;
    if (all_answered || deadline.passed()) return Status::Ok();
    TFOS_RETURN_IF_ERROR(WaitForWord(deadline).status());
  }
}

Result<bool> PartitionNodes::AwaitBeginners() {
  if (waited_for_beginners_ >= options_.patience_with_beginners ||
      std::ranges::none_of(nodes_, &FedNode::beginning)) {
    return false;
  }
  const Clock::TimePoint since = Clock::Steady().Now();
  TFOS_RETURN_IF_ERROR(HearOfBeginners());
  waited_for_beginners_ += Clock::Steady().Now() - since;
  return true;
}

Status PartitionNodes::HearOfBeginners() {
  const Deadline patience =
      Deadline::After(options_.patience_with_beginners - waited_for_beginners_);
  TFOS_ASSIGN_OR_RETURN(const bool word,
                        WaitForWord(Deadline::After(beginners_pause_).Min(patience)));
  if (word) return {};
  beginners_pause_ = std::min<Clock::Duration>(2 * beginners_pause_, kMostPause);
  // Its memory may be with feeders that wait in turn for a node whose memory is with this one. Then
  // it has got rows of theirs by now.
  std::vector<Endpoint> beginners;
  for (FedNode& node : nodes_) {
    if (!node.beginning()) continue;
    beginners.push_back(node.endpoint);
    node.silent = true;  // Unless it answers.
  }
  TFOS_ASSIGN_OR_RETURN(const FoundNodes asked_again,
                        AskNodes(options_, beginners, fates_, FeedClient::Ask::kBytes, patience));
  for (const FoundNode& answer : asked_again.nodes) {
    for (FedNode& node : nodes_) {
      if (node.endpoint.node_id != answer.endpoint.node_id) continue;
      node.silent = false;
      node.accepted = std::max(node.accepted, answer.counted.accepted);
    }
  }
  return {};
}

Result<bool> PartitionNodes::AwaitRoomForSample(const Endpoint& node, FeedClient& client) const {
  Deadline patience = Within(options_.progress_timeout);
  Clock::Duration pause = kPatienceAtHome;
  while (true) {
    TFOS_RETURN_IF_ERROR(client.FreeBytes().status());
    if (client.opened()) return true;
    if (client.stopped() || patience.passed()) return false;
    const Wait round{.deadline = Within(pause).Min(patience), .check = options_.check};
    TFOS_ASSIGN_OR_RETURN(const short word, net::Poll(client.fd(), POLLIN, round));
    if (word != 0) patience = Within(options_.progress_timeout);
    pause = std::min<Clock::Duration>(2 * pause, kMostPause);
    // Feeders may keep its memory for long. Once they have brought rows, it needs no sample.
    FedNode asked;
    asked.endpoint = node;
    TFOS_ASSIGN_OR_RETURN(const Counted counted, Count(asked));
    if (!counted.accepted.none()) return false;
  }
}

Status PartitionNodes::ReadRoom() {
  return ForEach([](FedNode& node) -> Status {
    if (!node.asked || !node.wants_rows()) return Status::Ok();
    TFOS_ASSIGN_OR_RETURN(node.free_bytes, node.client->FreeBytes());
    node.accepted = std::max(node.accepted, node.client->accepted().value_or(AcceptedBytes()));
    return Status::Ok();
  });
}

Status PartitionNodes::LookAbroad() {
  std::optional<AcceptedBytes> accepted_here;
  std::optional<AcceptedBytes> accepted_abroad;  // By those that were asked.
  std::size_t asked_abroad = 0;
  std::size_t without_rows = 0;  // Of those.
  bool any_left = false;
  for (const FedNode& node : nodes_) {
    if (!node.wants_rows()) continue;
    if (!node.remote) {
      accepted_here = std::min(accepted_here.value_or(node.accepted), node.accepted);
    } else if (node.asked) {
      accepted_abroad = std::min(accepted_abroad.value_or(node.accepted), node.accepted);
      ++asked_abroad;
      if (node.accepted.none()) ++without_rows;
    } else {
      any_left = true;
    }
  }
  if (!any_left) return Status::Ok();
  if (!accepted_here && asked_abroad == 0) return AskAbroad(options_.most_remote_nodes);
  const Clock::TimePoint now = Clock::Steady().Now();
  const bool waiting = OutOfRoom(now);
  // Another one each time that waiting has not helped: what all wait for may be its rows.
  if (waiting && now - asked_abroad_at_ >= kPatienceAtHome) return AskAbroad(1);
  const std::optional<AcceptedBytes> accepted = accepted_here ? accepted_here : accepted_abroad;
  if (!accepted) return Status::Ok();
  return AskLaggard(*accepted, /*at_once=*/without_rows < options_.most_remote_nodes);
}

Status PartitionNodes::AskLaggard(const AcceptedBytes& others, bool at_once) {
  // What was heard of them at the start says little by now; of nodes without a row it is worth
  // asking at once, as small data is soon over.
  const Clock::TimePoint now = Clock::Steady().Now();
  const bool due = !counted_at_ || now - *counted_at_ >= kCountInterval;
  std::size_t laggard = nodes_.size();
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const FedNode& node = nodes_[i];
    const bool now_or_never = at_once && node.accepted.none();
    if (node.remote && !node.asked && node.wants_rows() && (due || now_or_never) &&
        LagsBehind(node.accepted, others) &&
        (laggard == nodes_.size() || node.accepted < nodes_[laggard].accepted)) {
      laggard = i;
    }
  }
  if (laggard == nodes_.size()) return Status::Ok();
  counted_at_ = now;
  const Result<Counted> counted = Count(nodes_[laggard]);
  if (!counted.ok()) return LeaveOut(laggard, counted.status());
  if (LagsBehind(counted->accepted, others)) return Ask(laggard, options_.session);
  // There may be many nodes, and as many feeders with a connection to each.
  nodes_[laggard].client.reset();
  return Status::Ok();
}

Status PartitionNodes::SayEnd() {
  ended_ = true;
  return ForEach([](FedNode& node) -> Status {
    if (node.client == nullptr) return Status::Ok();
    if (node.asked && (node.client->opened() || node.client->stopped())) return node.client->End();
    node.client.reset();  // It never had memory for this partition, and got nothing of it.
    return Status::Ok();
  });
}

Status PartitionNodes::AwaitEnd() {
  return ForEach([this](FedNode& node) -> Status {
    if (node.client == nullptr) return Status::Ok();
    TFOS_ASSIGN_OR_RETURN(const Ended ended, node.client->Finish());
    result_rows_ += ended.result_rows;
    return Status::Ok();
  });
}

Status PartitionNodes::Leave() {
  TFOS_RETURN_IF_ERROR(SayEnd());
  TFOS_RETURN_IF_ERROR(AwaitEnd());
  for (FedNode& node : nodes_) {
    node.stopped = !node.wants_rows();
    node.asked = false;
    node.client.reset();
    // The next session may get other memory.
    node.free_bytes = 0;
    node.capacity_bytes = 0;
  }
  ended_ = false;
  return Status::Ok();
}

Result<bool> PartitionNodes::WaitForWord(const Deadline& deadline) const {
  std::vector<pollfd> sockets;
  for (const FedNode& node : nodes_) {
    if (node.asked && node.wants_rows()) {
      sockets.push_back({.fd = node.client->fd(), .events = POLLIN, .revents = 0});
    }
  }
  while (true) {
    const auto round = std::min<Clock::Duration>(kCheckInterval, deadline.Remaining());
    const int ready =
        ::poll(sockets.data(), sockets.size(), Deadline::After(round).PollMilliseconds());
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return Status::FromErrno(errno, "wait for the nodes");
    if (options_.check) TFOS_RETURN_IF_ERROR(options_.check());
    if (deadline.passed()) return false;
  }
}

Status PartitionNodes::NobodyReads() const {
  return {ErrorKind::kRetryLater,
          fmt::format("no row of partition {} was taken for {}: the programs are not reading "
                      "({})",
                      options_.session.key.partition, SecondsText(options_.progress_timeout),
                      NodeNames(options_.endpoints))};
}

}  // namespace tfos::feed
