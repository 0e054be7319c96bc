#ifndef TFOS_FEED_QUEUE_PASSED_CHUNKS_H_
#define TFOS_FEED_QUEUE_PASSED_CHUNKS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "feed/queue/feed_queue.h"

namespace tfos::feed {

/// What other nodes have passed on to this one at the end of an epoch, until it is taken.
///
/// A giver that did not hear that its rows were accepted brings them again, so it numbers what it
/// passes on, and the same number is accepted once.
///
/// Owner and lifetime: a value; it does not own the chunks' bytes. Threads: one at a time.
/// Errors: none.
class PassedChunks {
 public:
  struct Origin {
    std::uint32_t epoch = 0;
    std::uint32_t giver = 0;   ///< The node's id.
    std::uint64_t number = 0;  ///< Of what it passes on; 0: it has none, and won't bring it again.
  };

  /// False: these rows were accepted before, and the chunk is the caller's. What is known of givers
  /// in earlier epochs is forgotten.
  [[nodiscard]] bool Add(const Origin& origin, const QueuedChunk& chunk);
  /// The first of the epoch's that waits.
  std::optional<QueuedChunk> Take(std::uint32_t epoch);
  /// Whether these rows were accepted, and not dropped since.
  bool Has(const Origin& origin) const;
  /// Drops what waits, and returns it. It was not accepted then: its givers have it again, if they
  /// did not hear otherwise.
  std::vector<QueuedChunk> Clear();

 private:
  using Number = std::tuple<std::uint32_t, std::uint32_t, std::uint64_t>;
  struct Waiting {
    Number number;
    QueuedChunk chunk;
  };
  static Number NumberOf(const Origin& origin) {
    return {origin.epoch, origin.giver, origin.number};
  }

  std::map<std::uint32_t, std::deque<Waiting>> waiting_;  ///< By epoch; never an empty one.
  std::set<Number> known_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_QUEUE_PASSED_CHUNKS_H_
