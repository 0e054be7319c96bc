#ifndef TFOS_FEED_FEEDER_NODES_NODE_FATES_H_
#define TFOS_FEED_FEEDER_NODES_NODE_FATES_H_

#include <cstdint>

#include "base/time/deadline.h"
#include "feed/feeder/nodes/partition_options.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

/// Which nodes of a job have ended, as the coordinator says. That a feeder can't reach a node does
/// not mean that it is gone: it may go on with the rows that it has, which others must not get.
///
/// What the coordinator has said is remembered for all feeders of the job in this process, so that
/// a dead host costs time once. Owner and lifetime: a writer, whose options it borrows. Threads:
/// one at a time; what is remembered is shared by all. Errors: as the methods say.
class NodeFates {
 public:
  explicit NodeFates(const PartitionWriterOptions& options) : options_(options) {}

  /// Whether the coordinator has said that the node has ended. Asks nobody.
  bool HasEnded(std::uint32_t node) const;

  /// Asks the coordinator. One that does not answer names nobody; that is not a failure.
  ///   kReconnect  the cluster has failed: what a feeder sees comes of that
  ///   others      what the interrupt check returned
  Status Ask();

  /// How long a node that can't be reached is given to end, or to be reached after all.
  Deadline Patience() const;
  /// Before the coordinator is asked the `round`th time.
  Status Pause(int round, const Deadline& deadline) const;

  /// Waits until the coordinator says that a node, which `cause` says can't be reached, has ended.
  ///   kReconnect    as Ask
  ///   kUnsupported  it runs: that is CannotReach
  Status AwaitEnd(const Endpoint& node, const Status& cause);

  /// The failure of an attempt that can't reach a node which has not ended.
  Status CannotReach(const Endpoint& node, const Status& cause) const;

 private:
  const PartitionWriterOptions& options_;
  bool answered_ = false;  ///< The coordinator has, when it was last asked.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_NODES_NODE_FATES_H_
