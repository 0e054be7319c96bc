#ifndef TFOS_HADOOP_FILES_POSITIONED_SOURCE_H_
#define TFOS_HADOOP_FILES_POSITIONED_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "tfos/status.h"

namespace tfos::hadoop {

/// A file that knows two ways of reading: as a stream, which is fast and has one position, and at
/// any place by itself, which many threads may do at a time.
///
/// Owner and lifetime: of the ReadAhead that it is given to. Errors: those of the file.
class PositionedSource {
 public:
  virtual ~PositionedSource() = default;

  /// Fills `room` from `offset`; fewer bytes than that only where the file ends. One thread at a
  /// time; cheapest where the call before has ended.
  virtual Result<std::size_t> ReadStream(std::uint64_t offset, std::span<std::byte> room) = 0;
  /// The same, for any number of threads and beside `ReadStream`.
  virtual Result<std::size_t> ReadAt(std::uint64_t offset, std::span<std::byte> room) = 0;
  /// Whether the file has more from `offset` on than it had when it was opened; what is read from
  /// then on is of the longer one. False where it has not, or is not there any more. For any number
  /// of threads, too.
  virtual Result<bool> LookForMore(std::uint64_t offset) = 0;
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_FILES_POSITIONED_SOURCE_H_
