#ifndef TFOS_FEED_FEEDER_NODES_PARTITION_OPTIONS_H_
#define TFOS_FEED_FEEDER_NODES_PARTITION_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <vector>

#include "base/crypto/secret.h"
#include "base/time/wait.h"
#include "feed/wire/session.h"

namespace tfos::feed {

struct PartitionWriterOptions {
  // Behaviour.
  /// The nodes that may be fed, in order of preference.
  std::vector<Endpoint> endpoints;
  Secret token;
  SessionOptions session;
  /// How long no node that may be fed says anything; also the time for connecting to all of them.
  std::chrono::milliseconds progress_timeout{600'000};
  /// Ends waits early.
  InterruptCheck check = {};

  // Performance.
  /// Nodes of other hosts that one feeder feeds at once, those that have got least; more of them
  /// one by one, if they lag behind or nothing else helps.
  std::size_t most_remote_nodes = 2;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_NODES_PARTITION_OPTIONS_H_
