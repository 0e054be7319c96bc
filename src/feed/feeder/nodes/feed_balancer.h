#ifndef TFOS_FEED_FEEDER_NODES_FEED_BALANCER_H_
#define TFOS_FEED_FEEDER_NODES_FEED_BALANCER_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "feed/wire/session.h"

namespace tfos::feed {

/// One node as a feeder sees it at a moment. Units: bytes.
struct BalanceCandidate {
  std::uint64_t free_bytes = 0;      ///< Chunks that fit without waiting.
  std::uint64_t capacity_bytes = 0;  ///< `free_bytes` when the node has taken everything.
  AcceptedBytes accepted = {};       ///< By the node so far, as far as the feeder knows.
  bool remote = false;               ///< On another host than the feeder.
};

/// What to do with the next chunk.
struct BalanceChoice {
  enum class Action {
    kSend,  ///< To candidate `index`.
    kWait,  ///< All are busy; `index` has no meaning.
  };
  Action action = Action::kWait;
  std::size_t index = 0;
};

/// What a node of another host that has rows must lack of an epoch at least to be fed from here:
/// its own feeders may only be beginning. Nodes that train in step even out less than this at the
/// end of an epoch.
inline constexpr std::uint64_t kWorthTheWay = std::uint64_t{1} << 20;
/// The same for a node that has nothing of the epoch, which may be a small one.
inline constexpr std::uint64_t kWorthTheFirst = std::uint64_t{1} << 16;

/// Whether a node of another host has got so much less than those here that it is to be fed from
/// here: what it lacks is worth the way over the network. A node that lacks much of what came
/// before is given its share of this epoch, too, and not more.
bool LagsBehind(const AcceptedBytes& remote, const AcceptedBytes& here);

/// Chooses the node for a chunk of `bytes` among those that want rows. Among nodes that keep up
/// (their room is half free at least) it is the one that has accepted least, so that all get the
/// same share of small data too. Else it is the one with the most room, since that is the one that
/// empties its queue fastest; of equals the first. A chunk larger than any node's room ever is goes
/// to a node that has taken everything else. While nodes of this host want rows, one of another
/// host gets a chunk only if it lags behind them, or if `anywhere`: they have had no room for a
/// while.
BalanceChoice ChooseNode(std::span<const BalanceCandidate> candidates, std::uint64_t bytes,
                         bool anywhere);

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_NODES_FEED_BALANCER_H_
