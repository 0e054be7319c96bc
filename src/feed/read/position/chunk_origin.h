#ifndef TFOS_FEED_READ_POSITION_CHUNK_ORIGIN_H_
#define TFOS_FEED_READ_POSITION_CHUNK_ORIGIN_H_

#include <cstdint>

#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"

namespace tfos::feed {

/// Which rows of the data a chunk holds: known on all nodes in the same way, and in the next
/// cluster that is fed the same data. A value. Threads: plain data.
struct ChunkOrigin {
  /// Another node has passed it on, and knows the rest: its rows are those of number `number` that
  /// the node with the id `partition` has passed on.
  bool passed = false;
  std::uint64_t number = 0;
  std::uint32_t partition = 0;
  JobId job{};
  AcceptedChunk chunk = {};
  std::uint64_t rows = 0;  ///< All of the chunk's.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_POSITION_CHUNK_ORIGIN_H_
