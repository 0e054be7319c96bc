#include "feed/node/session/feeder_messages.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/memory/memory_of_host.h"
#include "chunk/pickle_leave.h"
#include "feed/wire/item_ranges.h"

namespace tfos::feed {
namespace {

/// No partition has more; keeps sums of what feeders claim from overflowing.
constexpr std::uint64_t kItemsLimit = std::uint64_t{1} << 56;

bool IsOpen(const FeederLink& link) {
  return link.session != nullptr && link.session->phase == SessionPhase::kOpen;
}

}  // namespace

Status FeederMessages::OnMessage(FeederLink& link, MessageType type,
                                 std::span<const std::byte> body) {
  // What crossed our last word on its way.
  if (link.said_last_word()) return {};
  // Its partition is over. The feeder can't know that yet, so it made no mistake.
  if (table_.phase() == FeedPhase::kClosed) return {ErrorKind::kReconnect, "the node closed"};
  switch (type) {
    case MessageType::kCount: {
      TFOS_ASSIGN_OR_RETURN(const CountMessage message, ParseCount(body));
      return OnCount(link, message);
    }
    case MessageType::kOpen: {
      TFOS_ASSIGN_OR_RETURN(SessionOptions options, ParseOpen(body));
      return OnOpen(link, std::move(options));
    }
    case MessageType::kChunk: {
      TFOS_ASSIGN_OR_RETURN(const ChunkMessage message, ParseChunk(body));
      return OnChunk(link, message);
    }
    case MessageType::kGrow: {
      TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes, ParseU64(body));
      return OnGrow(link, bytes);
    }
    case MessageType::kEnd: {
      TFOS_ASSIGN_OR_RETURN(const std::uint64_t items, ParseU64(body));
      return OnEnd(link, items);
    }
    default:
      return {ErrorKind::kBadInput,
              fmt::format("a {} message from a feeder", MessageTypeName(type))};
  }
}

Status FeederMessages::OnCount(FeederLink& link, const CountMessage& message) {
  if (link.session != nullptr) return {ErrorKind::kBadInput, "a COUNT after OPEN"};
  if (link.overfull()) {
    return {ErrorKind::kBadInput, "it asks for counts and does not read the answers"};
  }
  Outgoing& outgoing = table_.outgoing();
  if (table_.phase() == FeedPhase::kFailed) {
    outgoing.PostLast(link, EncodeError(table_.failure()));
    return {};
  }
  // First, as what another attempt still brings after the answer would be brought twice.
  if (!table_.TakesOver(link, message.key, message.attempt)) return {};
  std::vector<AcceptedChunk> accepted;
  if (message.chunks) accepted = table_.ledger().Accepted(message.key);
  std::span<const AcceptedChunk> left(accepted);
  do {
    const std::span<const AcceptedChunk> now = left.first(std::min(left.size(), kChunksInCounted));
    left = left.subspan(now.size());
    outgoing.Post(link, {.bytes = Encode(CountedMessage{.more = !left.empty(),
                                                        .accepted = table_.Accepted(message.key),
                                                        .chunks = {now.begin(), now.end()}})});
  } while (!left.empty());
  return {};
}

Status FeederMessages::OnOpen(FeederLink& link, SessionOptions options) {
  if (link.session != nullptr) return {ErrorKind::kBadInput, "a second OPEN"};
  Outgoing& outgoing = table_.outgoing();
  if (table_.phase() == FeedPhase::kFailed) {
    outgoing.PostLast(link, EncodeError(table_.failure()));
    return {};
  }
  if (options.until_read && (options.mode != Mode::kTrain || options.replay.epochs > 0)) {
    return {ErrorKind::kBadInput,
            "a partition that lasts until it is read is for training and not replayed"};
  }
  SessionTable::Queue* queue = table_.FindQueue(options.queue);
  // The last epoch is evened out when the feed is over. A giver that did not hear that its rows
  // were taken hears it also when the program wants no more.
  const bool passes_in_time =
      options.mode == Mode::kPass && queue != nullptr &&
      (table_.phase() == FeedPhase::kOver || SessionTable::HasPassed(*queue, options));
  const bool in_time = table_.phase() == FeedPhase::kOpen || passes_in_time;
  if (queue == nullptr || !in_time) {
    const OpenStatus status = queue == nullptr ? OpenStatus::kUnknownQueue : OpenStatus::kFeedOver;
    outgoing.PostLast(link, Encode(OpenedMessage{.status = status}));
    return {};
  }
  if (options.mode == Mode::kTrain) {
    TFOS_RETURN_IF_ERROR(queue->epochs.Check(options.key.epoch, options.replay.epochs));
    if (options.key.epoch < queue->closed_before || table_.ledger().HasEnded(options.key.job)) {
      // All of it has been fed, and what came of it is forgotten: a task that Spark has given up.
      outgoing.PostLast(link, Encode(OpenedMessage{.status = OpenStatus::kFeedOver}));
      return {};
    }
    table_.EndEpochsBefore(*queue, options.key.epoch);
    if (!table_.TakesOver(link, options.key, options.attempt)) return {};
  }
  table_.Open(link, *queue, std::move(options));
  return {};
}

Result<std::uint64_t> FeederMessages::PlaceChunk(FeederLink& link, const ChunkMessage& message) {
  if (!IsOpen(link)) {
    return Status(ErrorKind::kBadInput, "a chunk for a partition that is not open");
  }
  FeedSession& session = *link.session;
  if (message.items > kItemsLimit - session.items || message.first > kItemsLimit) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a chunk of {} items from {} on", message.items, message.first));
  }
  const std::optional<std::uint64_t> number = session.ring.Place(message.offset, message.bytes);
  if (!number) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("a chunk of {} bytes at {}, which is not free in a region of {}",
                              message.bytes, message.offset, session.ring.capacity()));
  }
  return *number;
}

Status FeederMessages::OnChunk(FeederLink& link, const ChunkMessage& message) {
  if (!link.local) return {ErrorKind::kBadInput, "a CHUNK message without shared memory"};
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t number, PlaceChunk(link, message));
  FeedSession& session = *link.session;
  const std::span<const std::byte> bytes =
      session.region->memory().subspan(message.offset, message.bytes);
  if (const Status leave = chunk::CheckLeave(bytes, pickles_); !leave.ok()) {
    table_.ReleaseBlock(session, number);  // Else the session would keep its region for ever.
    return leave;
  }
  table_.Accept(session, {.session = session.id,
                          .number = number,
                          .bytes = bytes,
                          .first = message.first,
                          .items = message.items,
                          .rows_read = message.rows_read,
                          .checksum = message.checksum});
  return {};
}

Result<std::span<std::byte>> FeederMessages::OnDataBegin(FeederLink& link,
                                                         std::span<const std::byte> body,
                                                         std::uint32_t bytes) {
  if (link.local) return Status(ErrorKind::kBadInput, "a DATA message beside shared memory");
  TFOS_ASSIGN_OR_RETURN(const DataHead head, ParseDataHead(body));
  if (table_.phase() == FeedPhase::kClosed && !link.said_last_word()) {
    return Status(ErrorKind::kReconnect, "the node closed");
  }
  TFOS_ASSIGN_OR_RETURN(
      const std::uint64_t number,
      PlaceChunk(
          link, {.offset = head.offset, .bytes = bytes, .first = head.first, .items = head.items}));
  const FeedSession& session = *link.session;
  const std::span<std::byte> target = session.region->memory().subspan(head.offset, bytes);
  link.receiving = {.session = session.id,
                    .number = number,
                    .bytes = target,
                    .first = head.first,
                    .items = head.items,
                    .rows_read = head.rows_read,
                    .checksum = head.checksum};
  return target;
}

Status FeederMessages::OnDataEnd(FeederLink& link) {
  if (link.session->phase == SessionPhase::kOver) {
    AbandonData(link);
    return {};
  }
  TFOS_RETURN_IF_ERROR(chunk::CheckLeave(link.receiving->bytes, pickles_));
  const QueuedChunk chunk = *std::exchange(link.receiving, std::nullopt);
  table_.Accept(*link.session, chunk);
  return {};
}

void FeederMessages::AbandonData(FeederLink& link) {
  if (const auto chunk = std::exchange(link.receiving, std::nullopt)) {
    table_.ReleaseBlock(*link.session, chunk->number);
  }
}

Status FeederMessages::OnGrow(FeederLink& link, std::uint64_t bytes) {
  if (!IsOpen(link) || link.session->ring.in_flight() > 0) {
    return {ErrorKind::kBadInput, "GROW while chunks are in use or no partition is open"};
  }
  if (bytes == 0 || (!link.local && bytes > kDataLimit)) {
    return {ErrorKind::kBadInput,
            fmt::format("a chunk of {} bytes; over TCP at most {} fit", bytes, kDataLimit)};
  }
  // Beyond its budget a node gives what one chunk needs, whatever that is.
  if (const std::uint64_t most = MemoryOfHost(); bytes > most) {
    return {ErrorKind::kBadInput,
            fmt::format("a chunk of {} bytes, and the node's host has {} bytes of memory", bytes,
                        most)};
  }
  FeedSession& session = *link.session;
  table_.GiveRegionBack(session, /*reusable=*/true);
  session.ring = Ring(0);
  session.phase = SessionPhase::kGrowing;
  table_.RequestMemory(session, bytes);
  return {};
}

Status FeederMessages::OnEnd(FeederLink& link, std::uint64_t items) {
  if (!IsOpen(link)) return {ErrorKind::kBadInput, "END of a partition that is not open"};
  const SessionTable::SessionPointer session = link.session;
  if (items != session->items) {
    return {ErrorKind::kBadInput,
            fmt::format("the feeder counts {} items, the node {}", items, session->items)};
  }
  if (session->options.mode == Mode::kInference) {
    session->phase = SessionPhase::kEnding;
    table_.QueueOf(*session).epochs.chunks().EndSession(session->id);
    table_.WakeConsumers();
  } else if (session->options.until_read && !session->reads.all_read()) {
    session->phase = SessionPhase::kEnding;
  } else {
    table_.EndTraining(session);
  }
  return {};
}

}  // namespace tfos::feed
