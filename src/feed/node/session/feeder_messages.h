#ifndef TFOS_FEED_NODE_SESSION_FEEDER_MESSAGES_H_
#define TFOS_FEED_NODE_SESSION_FEEDER_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "feed/node/session/feed_session.h"
#include "feed/node/session/session_table.h"
#include "feed/wire/frame.h"
#include "tfos/status.h"

namespace tfos::feed {

/// What authenticated feeders say, as docs/formats/feed-protocol.md has it: checks each message
/// against what its session is in, and has the table do it.
///
/// Owner and lifetime: FeedSessions; borrows the table. Threads: one at a time: FeedSessions' lock.
/// Errors: kBadInput: the feeder broke the protocol, refuse it; kReconnect: the node has closed.
class FeederMessages {
 public:
  /// `pickles`: rows may be pickles.
  FeederMessages(SessionTable& table, bool pickles) : table_(table), pickles_(pickles) {}

  Status OnMessage(FeederLink& link, MessageType type, std::span<const std::byte> body);
  /// Where a chunk that comes over TCP is to be written: `bytes` of the session's region.
  Result<std::span<std::byte>> OnDataBegin(FeederLink& link, std::span<const std::byte> body,
                                           std::uint32_t bytes);
  Status OnDataEnd(FeederLink& link);
  /// What is left of a chunk that was on its way does not come.
  void AbandonData(FeederLink& link);

 private:
  Status OnCount(FeederLink& link, const CountMessage& message);
  Status OnOpen(FeederLink& link, SessionOptions options);
  Status OnChunk(FeederLink& link, const ChunkMessage& message);
  Status OnGrow(FeederLink& link, std::uint64_t bytes);
  Status OnEnd(FeederLink& link, std::uint64_t items);
  /// The block of the ring that the chunk takes, if the session may send it.
  static Result<std::uint64_t> PlaceChunk(FeederLink& link, const ChunkMessage& message);

  SessionTable& table_;
  const bool pickles_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_SESSION_FEEDER_MESSAGES_H_
