#ifndef TFOS_CHUNK_PICKLE_LEAVE_H_
#define TFOS_CHUNK_PICKLE_LEAVE_H_

#include <cstddef>
#include <span>
#include <string_view>

#include "chunk/chunk.h"
#include "tfos/status.h"

// Rows that are pickles can run any code where they are read. `spark.tfos.feed.pickle=false`
// refuses them: the feeder makes none, and nobody reads one. Threads: any.

namespace tfos::chunk {

/// What is said of rows that only a pickle could hold, such as "its field 'x' is a set".
Status PicklesRefused(std::string_view why);

/// Bad input if this chunk, which has been parsed, holds pickles and may not. A chunk in memory
/// that its feeder can write to is checked as it was parsed, not as its memory is.
Status CheckLeave(const ChunkView& chunk, bool pickles);

/// The same of a chunk as it arrives, so that its feeder can be told. What is read of it later is
/// checked once more.
Status CheckLeave(std::span<const std::byte> chunk, bool pickles);

}  // namespace tfos::chunk

#endif  // TFOS_CHUNK_PICKLE_LEAVE_H_
