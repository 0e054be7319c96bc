#ifndef TFOS_FEED_FEEDER_NODES_NODE_SEARCH_H_
#define TFOS_FEED_FEEDER_NODES_NODE_SEARCH_H_

#include <memory>
#include <span>
#include <vector>

#include "base/time/deadline.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/feeder/nodes/node_fates.h"
#include "feed/feeder/nodes/partition_options.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

/// A node that has said what it has of a partition.
struct FoundNode {
  Endpoint endpoint;
  std::unique_ptr<FeedClient> client;
  Counted counted;
};

/// A node that can't be reached.
struct MissedNode {
  Endpoint endpoint;
  Status cause;
};

struct FoundNodes {
  std::vector<FoundNode> nodes;    ///< In the order in which they were asked for.
  std::vector<MissedNode> missed;  ///< Likewise. They may run all the same.
  Status late;                     ///< kRetryLater: names all that have not answered in time.
};

/// Connects to all these nodes at the same time, and asks each what it has of the partition. One
/// that is slow to answer delays nobody else, and all share one deadline, `connect_timeout` at
/// most. If some are slow, the coordinator is asked, too, and those that have ended are waited for
/// no more.
///
/// Any thread; it has threads of its own until it returns, of which none asks `options.check`.
/// Errors: failures of FeedClient that concern the partition (kBadInput, kSuperseded) and what the
/// check returned end the search.
Result<FoundNodes> AskNodes(const PartitionWriterOptions& options,
                            std::span<const Endpoint> endpoints, NodeFates& fates,
                            FeedClient::Ask what, const Deadline& deadline = Deadline::Infinite());

/// The same for all nodes that may be fed, until each has either answered or ended. All that are
/// `missed` then have ended.
///
/// Errors: also those of NodeFates: kUnsupported for a node that runs and can't be reached; and
/// kRetryLater if some have not answered in time.
Result<FoundNodes> FindNodes(const PartitionWriterOptions& options, NodeFates& fates);

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_NODES_NODE_SEARCH_H_
