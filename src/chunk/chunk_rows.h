#ifndef TFOS_CHUNK_CHUNK_ROWS_H_
#define TFOS_CHUNK_CHUNK_ROWS_H_

#include <algorithm>
#include <cstdint>

namespace tfos::chunk {

/// Rows in a partition's first chunk. Later chunks grow by a quarter until they have the size asked
/// for: the first rows arrive soon, and small data spreads evenly, as no chunk is more than a fifth
/// of what came before it.
inline constexpr std::uint64_t kFirstChunkRows = 16;
inline constexpr std::uint64_t kMostRowsInChunk = 1 << 16;

/// How many rows the chunk gets after one that was to have `wanted` rows and had `rows`. They took
/// `written` bytes; 0 when they were skipped, as the nodes have them, which says nothing of sizes.
inline std::uint64_t NextChunkRows(std::uint64_t wanted, std::uint64_t rows, std::uint64_t written,
                                   std::uint64_t chunk_bytes) {
  if (written == 0) return wanted;
  const double room =
      static_cast<double>(chunk_bytes) / static_cast<double>(written) * static_cast<double>(rows);
  // Limited before it is an integer again: an unlimited chunk has room for over 2^64 rows.
  const auto fitting =
      static_cast<std::uint64_t>(std::min(room, static_cast<double>(kMostRowsInChunk)));
  const std::uint64_t grown = rows + std::max(kFirstChunkRows, rows / 4);
  return std::max<std::uint64_t>(1, std::min({fitting, grown, kMostRowsInChunk}));
}

/// The same for batches of rows that Spark has pickled, whose sizes are seen before they are sent:
/// a chunk has that many of them, or fewer once they have the size asked for.
inline constexpr std::uint64_t kFirstChunkBatches = 1;
/// A JVM holds a reference to each while it sends them, and has a limit on those.
inline constexpr std::uint64_t kMostBatchesInChunk = 1 << 15;

/// How many batches the chunk may have after one that had `batches`.
inline std::uint64_t NextChunkBatches(std::uint64_t batches) {
  return std::min(batches + std::max(kFirstChunkBatches, batches / 4), kMostBatchesInChunk);
}

}  // namespace tfos::chunk

#endif  // TFOS_CHUNK_CHUNK_ROWS_H_
