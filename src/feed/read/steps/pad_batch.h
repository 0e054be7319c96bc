#ifndef TFOS_FEED_READ_STEPS_PAD_BATCH_H_
#define TFOS_FEED_READ_STEPS_PAD_BATCH_H_

#include "feed/read/batch.h"
#include "tfos/status.h"

namespace tfos::feed {

/// The batch with rows of zeros (empty strings and lists) behind its own, up to `options.rows`.
/// Threads: any. Errors: kNoResources without memory for the batch.
Result<Batch> PadBatch(Batch batch, const BatchOptions& options);

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_STEPS_PAD_BATCH_H_
