#include "feed/feeder/partition_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/time/deadline.h"
#include "feed/feeder/nodes/feed_balancer.h"
#include "feed/wire/frame.h"
#include "feed/wire/read_position.h"

namespace tfos::feed {
namespace {

constexpr auto BeginOf = [](const AcceptedChunk& chunk) { return chunk.items.begin; };

}  // namespace

Result<std::unique_ptr<PartitionWriter>> PartitionWriter::Open(PartitionWriterOptions options) {
  if (options.endpoints.empty()) {
    return Status(ErrorKind::kBadInput, "there is no node to feed");
  }
  const bool train = options.session.mode == Mode::kTrain;
  std::unique_ptr<PartitionWriter> writer(new PartitionWriter(std::move(options)));
  if (train) {
    std::vector<AcceptedChunk>& chunks = writer->delivered_chunks_;
    TFOS_RETURN_IF_ERROR(writer->nodes_.Find(chunks));
    for (const AcceptedChunk& chunk : chunks) writer->delivered_.Add(chunk.items);
    writer->AddTrained();
    std::ranges::sort(chunks, {}, BeginOf);
    std::ranges::sort(writer->partly_trained_, {}, BeginOf);
    TFOS_RETURN_IF_ERROR(writer->nodes_.Open());
  } else {
    TFOS_RETURN_IF_ERROR(writer->nodes_.OpenOne(PartitionNodes::Where::kThisHost));
    if (writer->nodes_.empty())
      TFOS_RETURN_IF_ERROR(writer->nodes_.OpenOne(PartitionNodes::Where::kAnywhere));
    if (writer->nodes_.empty()) return writer->nodes_.Unreachable();
  }
  return writer;
}

void PartitionWriter::AddTrained() {
  for (const TrainedChunk& trained : options_.trained) {
    const ItemRange& items = trained.chunk.items;
    // A node has got one that was fed again, by an earlier attempt.
    if (delivered_.ItemsIn(items) > 0) continue;
    if (trained.whole) {
      trained_.Add(items);
      delivered_.Add(items);
      delivered_chunks_.push_back(trained.chunk);
    } else {
      partly_trained_.push_back(trained.chunk);
    }
  }
}

Result<std::span<std::byte>> PartitionWriter::Reserve(std::size_t bytes) {
  TFOS_RETURN_IF_ERROR(Resend());
  TFOS_ASSIGN_OR_RETURN(room_, ReserveRoom(bytes));
  return room_;
}

Result<std::span<std::byte>> PartitionWriter::ReserveRoom(std::size_t bytes) {
  if (nodes_.ended()) return Status(ErrorKind::kBadInput, "a chunk after the end of the partition");
  if (alone_) {
    if (bytes > smallest_region_) return ReserveAlone(bytes);
    TFOS_RETURN_IF_ERROR(nodes_.Leave());
    alone_ = false;
    TFOS_RETURN_IF_ERROR(nodes_.Open());
  }
  const bool train = options_.session.mode == Mode::kTrain;
  Deadline deadline = nodes_.Within(options_.progress_timeout);
  std::vector<BalanceCandidate> candidates;
  std::vector<std::size_t> node_of_candidate;
  while (!stopped()) {
    // In this order: a feeder that was told that another attempt took over must not ask any more.
    TFOS_RETURN_IF_ERROR(nodes_.ReadRoom());
    if (train) TFOS_RETURN_IF_ERROR(nodes_.LookAbroad());
    candidates.clear();
    node_of_candidate.clear();
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      FedNode& node = nodes_[i];
      if (!node.asked || !node.open()) continue;
      node.capacity_bytes = std::max(node.capacity_bytes, node.free_bytes);
      smallest_region_ = candidates.empty() ? node.capacity_bytes
                                            : std::min(smallest_region_, node.capacity_bytes);
      candidates.push_back({.free_bytes = node.free_bytes,
                            .capacity_bytes = node.capacity_bytes,
                            .accepted = node.accepted,
                            .remote = node.remote});
      node_of_candidate.push_back(i);
    }
    // Alone, as none may wait for more memory while this feeder holds that of another one.
    if (train && !candidates.empty() && bytes > smallest_region_) return ReserveAlone(bytes);
    const Clock::TimePoint now = Clock::Steady().Now();
    const bool anywhere = nodes_.OutOfRoom(now);
    const BalanceChoice choice = ChooseNode(candidates, bytes, anywhere);
    if (choice.action == BalanceChoice::Action::kSend) {
      reserved_ = node_of_candidate[choice.index];
      if (train && !nodes_[reserved_].accepted.none()) {
        TFOS_ASSIGN_OR_RETURN(const bool waited, nodes_.AwaitBeginners());
        if (waited) continue;
      }
      if (!nodes_[reserved_].remote) nodes_.NoteRoom();
      const Result<std::span<std::byte>> room = nodes_[reserved_].client->Reserve(bytes);
      if (!room.ok()) {
        TFOS_RETURN_IF_ERROR(nodes_.Lose(reserved_, room.status()));
      } else if (!room->empty()) {
        return room;
      }
      continue;  // It has stopped or gone meanwhile; perhaps another one has not.
    }
    if (stopped()) break;
    nodes_.NoteNoRoom(now);
    const bool look_again = std::ranges::any_of(nodes_.all(), &FedNode::remote);
    const Deadline patience =
        look_again ? nodes_.Within(PartitionNodes::kPatienceAtHome) : deadline;
    TFOS_ASSIGN_OR_RETURN(const bool word, nodes_.WaitForWord(patience.Min(deadline)));
    if (word) {
      deadline = nodes_.Within(options_.progress_timeout);
    } else if (deadline.passed()) {
      return nodes_.NobodyReads();
    }
  }
  return std::span<std::byte>();
}

Result<std::span<std::byte>> PartitionWriter::ReserveAlone(std::size_t bytes) {
  TFOS_RETURN_IF_ERROR(nodes_.Leave());
  alone_ = true;
  while (!stopped()) {
    TFOS_ASSIGN_OR_RETURN(const std::optional<std::size_t> node, nodes_.OpenForOne(bytes));
    if (!node) break;
    const Result<std::span<std::byte>> room = nodes_[*node].client->Reserve(bytes);
    if (!room.ok()) {
      TFOS_RETURN_IF_ERROR(nodes_.Lose(*node, room.status()));
      continue;
    }
    reserved_ = *node;
    if (!room->empty()) return room;
    // It has stopped meanwhile; perhaps another one has not.
  }
  return std::span<std::byte>();
}

Status PartitionWriter::Commit(std::size_t bytes, const ItemRange& items) {
  KeepSample(bytes);
  TFOS_RETURN_IF_ERROR(CommitChunk(bytes, items, 0));
  items_sent_ += items.items();
  if (options_.repeats) moved_items_ += items.items();
  return Status::Ok();
}

Status PartitionWriter::CommitChunk(std::size_t bytes, const ItemRange& items,
                                    std::uint64_t rows_read) {
  FedNode& node = nodes_[reserved_];
  node.fed = true;
  if (const Status status = node.client->Commit(bytes, items, rows_read); !status.ok()) {
    return nodes_.Lose(reserved_, status);
  }
  // Of inference, nodes count no epochs.
  if (options_.session.mode == Mode::kTrain) node.accepted.of_epoch += bytes;
  node.accepted.of_all += bytes;
  // Its memory is for others once the chunk is consumed, however long the next row takes.
  return alone_ ? nodes_.Leave() : Status::Ok();
}

void PartitionWriter::KeepSample(std::size_t bytes) {
  if (options_.session.mode != Mode::kTrain || !sample_.empty()) return;
  const FedNode* const fed = &nodes_[reserved_];
  const bool wanted = std::ranges::any_of(nodes_.all(), [&](const FedNode& node) {
    return &node != fed && node.accepted.none() && node.wants_rows();
  });
  if (wanted) sample_.assign(room_.begin(), room_.begin() + static_cast<std::ptrdiff_t>(bytes));
}

Status PartitionWriter::SendSamples() {
  const std::vector<std::byte> sample = std::exchange(sample_, {});
  if (sample.empty()) return Status::Ok();
  for (FedNode& node : nodes_.all()) {
    if (!node.accepted.none() || !node.wants_rows()) continue;
    // A node that is gone needs none, and one that does not answer fails no partition by that.
    const Status status = SendSample(node, sample);
    if (!status.ok() && status.kind() != ErrorKind::kReconnect &&
        status.kind() != ErrorKind::kRetryLater) {
      return status;
    }
  }
  return Status::Ok();
}

Status PartitionWriter::SendSample(FedNode& node, std::span<const std::byte> sample) {
  FedNode sampled;  // With a connection of its own, as the node's session has ended.
  sampled.endpoint = node.endpoint;
  TFOS_ASSIGN_OR_RETURN(const Counted counted, nodes_.Count(sampled));
  node.accepted = counted.accepted;
  if (!node.accepted.none()) return Status::Ok();
  SessionOptions session = options_.session;
  session.region_bytes = sample.size();
  session.until_read = false;
  session.replay = {};
  TFOS_RETURN_IF_ERROR(sampled.client->BeginOpen(session));
  TFOS_ASSIGN_OR_RETURN(const bool has_room,
                        nodes_.AwaitRoomForSample(node.endpoint, *sampled.client));
  if (!has_room) return Status::Ok();
  TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, sampled.client->Reserve(sample.size()));
  if (room.empty()) return Status::Ok();  // It wants no more rows.
  std::memcpy(room.data(), sample.data(), sample.size());
  TFOS_RETURN_IF_ERROR(sampled.client->Commit(sample.size(), {0, 0}, ReadTracker::kAllRows));
  return sampled.client->Finish().status();
}

Status PartitionWriter::Resend() {
  while (!nodes_.unread().empty()) {
    const UnreadChunk chunk = nodes_.unread().front();
    TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, ReserveRoom(chunk.bytes.size()));
    if (room.empty()) break;  // Nobody wants rows any more.
    std::memcpy(room.data(), chunk.bytes.data(), chunk.bytes.size());
    nodes_.unread().pop_front();
    TFOS_RETURN_IF_ERROR(CommitChunk(chunk.bytes.size(), chunk.items, chunk.rows_read));
    moved_items_ += chunk.items.items();
  }
  nodes_.ForgetLost();
  return Status::Ok();
}

Result<std::optional<ResultChunk>> PartitionWriter::TakeResult(bool block) {
  return nodes_[0].client->TakeResult(block);
}

Status PartitionWriter::End() { return nodes_.SayEnd(); }

Result<Ended> PartitionWriter::Finish() {
  TFOS_RETURN_IF_ERROR(nodes_.SayEnd());
  // Before the wait: the other nodes' programs may wait for those without a row, which wait to
  // learn what rows hold.
  // What a lost node leaves may be the first rows of another one.
  if (nodes_.unread().empty()) TFOS_RETURN_IF_ERROR(SendSamples());
  TFOS_RETURN_IF_ERROR(nodes_.AwaitEnd());
  while (!nodes_.unread().empty() && !stopped()) {
    // The sessions of the others are over by now.
    TFOS_RETURN_IF_ERROR(nodes_.Leave());
    TFOS_RETURN_IF_ERROR(nodes_.Open());
    TFOS_RETURN_IF_ERROR(Resend());
    TFOS_RETURN_IF_ERROR(nodes_.SayEnd());
    TFOS_RETURN_IF_ERROR(SendSamples());
    TFOS_RETURN_IF_ERROR(nodes_.AwaitEnd());
  }
  return Ended{
      .accepted_items = items_sent_, .result_rows = nodes_.result_rows(), .stopped = stopped()};
}

bool PartitionWriter::stopped() const { return nodes_.stopped(); }

}  // namespace tfos::feed
