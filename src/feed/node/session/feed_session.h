#ifndef TFOS_FEED_NODE_SESSION_FEED_SESSION_H_
#define TFOS_FEED_NODE_SESSION_FEED_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "feed/node/session/outgoing.h"
#include "feed/queue/cached_epoch.h"
#include "feed/queue/feed_queue.h"
#include "feed/wire/read_position.h"
#include "feed/wire/region.h"
#include "feed/wire/ring.h"
#include "feed/wire/session.h"

namespace tfos::feed {

struct FeedSession;

/// One feeder as the sessions see it: what it has open, and what is to be said to it.
///
/// Owner and lifetime: the connection's, until `FeedSessions::Gone`. Threads: the connection sets
/// `id` and `local` before anything else happens; the rest is FeedSessions', under its lock.
struct FeederLink : Outgoing::Line {
  bool local = false;  ///< On the Unix socket: shares memory.

  std::shared_ptr<FeedSession> session;
  /// A chunk whose bytes are on their way into the session's region.
  std::optional<QueuedChunk> receiving;
};

enum class SessionPhase {
  kWaiting,  ///< OPEN came; memory is not granted yet.
  kOpen,     ///< Chunks may come.
  kGrowing,  ///< GROW came; memory is not granted yet.
  kEnding,   ///< END came; rows are being answered, or read.
  kOver,     ///< Nothing more is said about it. Chunks may still be lent out.
};

/// One partition being fed. Guarded by the lock of the sessions.
struct FeedSession {
  std::uint64_t id = 0;
  SessionOptions options;
  SessionPhase phase = SessionPhase::kWaiting;
  FeederLink* link = nullptr;          ///< Null once its connection is gone.
  std::shared_ptr<CachedEpoch> cache;  ///< Null unless its epoch will be replayed.
  std::shared_ptr<Region> region;      ///< Null while waiting, and when over and all released.
  std::uint64_t counted_bytes = 0;     ///< Of the region, in the memory in use.
  bool being_trimmed = false;          ///< Somebody gives its unused memory back right now.
  Ring ring{0};
  ReadTracker reads;     ///< Only if it lasts until all is read.
  bool orderly = false;  ///< Over: as it should, so that the region can be used again.
  std::uint64_t items = 0;
  std::uint64_t rows_answered = 0;
  std::uint64_t unread_result_bytes = 0;
  /// What another node passes on, until it has said that this is all.
  std::vector<QueuedChunk> passed;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_NODE_SESSION_FEED_SESSION_H_
