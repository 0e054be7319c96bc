#ifndef TFOS_FEED_READ_POSITION_MERGED_POSITION_H_
#define TFOS_FEED_READ_POSITION_MERGED_POSITION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "feed/read/position/epoch_log.h"
#include "tfos/status.h"

// The position of a training in the data of an epoch: which rows all nodes together have trained
// on. docs/formats/checkpoint.md has its form.

namespace tfos::feed {

/// What travels of a node's position: whole numbers, the node's id first.
std::vector<std::uint64_t> Encode(std::uint32_t node_id, const EpochLog::Position& position);

/// A line of a position: rows of one chunk. A value. Threads: plain data.
struct TrainedRows {
  std::uint32_t partition = 0;
  AcceptedChunk chunk = {};
  std::uint64_t rows = 0;  ///< All of the chunk's.
  ItemRange trained = {};  ///< Of these.

  friend bool operator==(const TrainedRows&, const TrainedRows&) = default;
};

/// The positions of all nodes together, as Encode made them, and `before`: that of the checkpoint
/// from which they went on in this epoch. In the order of the data; ranges that touch are one.
///   kUnsupported  rows came of more than one Spark job; chunks were cut anew, so that the same row
///                 is in two of them; or rows were passed on by a node that has no position
///   kBadInput     the numbers make no positions
Result<std::vector<TrainedRows>> Merged(const std::vector<std::span<const std::uint64_t>>& nodes,
                                        const std::vector<TrainedRows>& before);

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_POSITION_MERGED_POSITION_H_
