#ifndef TFOS_COLUMNS_PICKLE_PICKLE_READER_H_
#define TFOS_COLUMNS_PICKLE_PICKLE_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "columns/pickle/arena.h"
#include "columns/pickle/pickle_value.h"

namespace tfos::columns {

/// Reads pickles of plain rows: the opcodes of the protocols 2 to 5 (README.md lists them) as
/// CPython's pickler writes them for numbers, text, bytes, lists, tuples, dicts, NumPy
/// arrays and scalars, and Spark's Rows.
///
/// Owner and lifetime: values live until Reset, and borrow the pickle they were read from. They
/// may refer to each other in circles. Threads: one at a time.
/// Errors: none: whatever else a pickle holds, or if it isn't valid, it is refused, and Python
/// must read it. Throws std::bad_alloc; uses memory in proportion to the pickles.
///
/// A byte that others may change meanwhile is read at most once for anything that memory safety
/// depends on.
class PickleReader {
 public:
  /// What the pickle holds; none if it is refused.
  std::optional<PickleValue> Read(std::span<const std::byte> pickle);

  /// The items of a list, tuple or dict as values, whatever form they have come in; null if that
  /// was more than one run.
  const PickleValue* Values(PickleSequence& items);

  /// Ends the life of all values.
  void Reset();

 private:
  class Machine;

  Arena arena_;
  // These belong to the pickle that is being read; kept for their memory.
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::vector<PickleValue> memo_;
  std::vector<std::int64_t> ints_;
};

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_PICKLE_PICKLE_READER_H_
