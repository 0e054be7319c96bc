#ifndef TFOS_FEED_FEEDER_FEED_PLAN_H_
#define TFOS_FEED_FEEDER_FEED_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "feed/feeder/partition_writer.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

/// The task that feeds a partition.
struct FeedTask {
  std::string executor_id;  ///< Nodes of this executor come first.
  std::uint32_t partition = 0;
  AttemptId attempt = 0;  ///< Spark's taskAttemptId.
  Mode mode = Mode::kTrain;
};

/// Reads the plan of a Spark job that feeds: JSON that the driver has written (FeedPlan in
/// python/tfos/feed/plan.py) and every task of the job gets. Endpoints are in the order in which a
/// partition that needs only some should take them: the executor's own nodes first, and of nodes
/// that are alike another one for each partition.
///
/// Errors: kBadInput, naming what the plan lacks; never with its key.
Result<PartitionWriterOptions> ReadFeedPlan(std::string_view plan, const FeedTask& task);

/// A job's id from its hexadecimal digits, as plans and control messages have it. Errors:
/// kBadInput.
Result<JobId> ReadJobId(std::string_view hex);

}  // namespace tfos::feed

#endif  // TFOS_FEED_FEEDER_FEED_PLAN_H_
