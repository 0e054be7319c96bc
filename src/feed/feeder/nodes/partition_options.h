#ifndef TFOS_FEED_FEEDER_NODES_PARTITION_OPTIONS_H_
#define TFOS_FEED_FEEDER_NODES_PARTITION_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "base/crypto/secret.h"
#include "base/time/deadline.h"
#include "base/time/wait.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"
#include "net/handshake/protocol.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Asks the coordinator which nodes have ended (done, failed, lost or stopped): their ids. The
/// check may end the wait early. Errors: kRetryLater, the coordinator can't be asked; kReconnect,
/// the cluster has failed; those of the check.
using AskEnded = std::function<Result<std::set<std::uint32_t>>(const InterruptCheck& check)>;

/// A chunk of which an earlier cluster has trained on rows, up to the checkpoint from which this
/// one goes on. A value. Threads: plain data.
struct TrainedChunk {
  AcceptedChunk chunk = {};
  /// All of its rows. Else the nodes know which ones, and it is fed again as it was.
  bool whole = false;
};

struct PartitionWriterOptions {
  // Behaviour.
  /// The nodes that may be fed, in order of preference.
  std::vector<Endpoint> endpoints;
  Secret key;  ///< Of the purpose `feed`.
  /// Which TCP connections are encrypted.
  net::Encryption encryption = net::Encryption::kBetweenHosts;
  /// Whether rows may go as pickles. If not, those that make no columns are refused here.
  bool pickles = true;
  SessionOptions session;
  /// Of the partition.
  std::vector<TrainedChunk> trained = {};
  /// Whether the rows that an earlier attempt has delivered are compared with those of this one.
  bool check_retries = true;
  /// The driver feeds the job again when a node was lost, so an attempt goes on without it, and
  /// what it had of the partition is fed then.
  bool bears_losses = false;
  /// It does so now: whatever is sent was with a lost node before.
  bool repeats = false;
  /// How long no node that may be fed says anything.
  std::chrono::milliseconds progress_timeout{600'000};
  /// Says how much of that has passed. Outlives the writer.
  const Clock* progress_clock = &Clock::Steady();
  /// The time for connecting to all of them, and for their words what they have of the partition.
  /// Threads of the nodes give them that wait for no program.
  std::chrono::milliseconds connect_timeout{600'000};
  /// Ends waits early.
  InterruptCheck check = {};
  /// Only nodes that it names may be done without. Without it, a node that can't be reached is a
  /// failure.
  AskEnded ask_ended = {};

  // Performance.
  /// How long the feeder of a partition waits, all in all, for nodes that have no row yet and no
  /// memory for it. Such a wait is for an even start, which is worth less than the rows that others
  /// could work at. Other feeders of a node, whose own source may be slow, can hold its memory for
  /// any time.
  std::chrono::milliseconds patience_with_beginners{10'000};
  /// Nodes of other hosts that one feeder feeds at once, those that have got least; more of them
  /// one by one, if they lag behind or nothing else helps. For a chunk that no region holds, all
  /// may be asked.
  std::size_t most_remote_nodes = 2;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_NODES_PARTITION_OPTIONS_H_
