#ifndef TFOS_COLUMNS_PICKLE_NUMBER_RUNS_H_
#define TFOS_COLUMNS_PICKLE_NUMBER_RUNS_H_

#include <cstddef>

#include "chunk/chunk.h"
#include "columns/pickle/pickle_value.h"

namespace tfos::columns {

// Numbers in lists and tuples, in whatever form they were read.
//
// Owner and lifetime: borrow the values. Threads: any. Errors: none. Units: bytes and elements.

inline bool IsNumber(PickleKind kind) {
  return kind == PickleKind::kBool || kind == PickleKind::kInt || kind == PickleKind::kFloat;
}

/// The dtype of the run's numbers if all its items are numbers of one type, else kNone.
chunk::DType NumbersOf(const PickleRun& run);

/// Calls visit(run) for each run until it returns false; returns whether it never did.
template <typename Visit>
bool AllRuns(const PickleSequence& items, Visit visit) {
  if (items.size == 0) return true;
  for (const PickleRun* run = &items.first; run != nullptr; run = run->next) {
    if (!visit(*run)) return false;
  }
  return true;
}

bool AllNumbersOf(const PickleSequence& items, chunk::DType dtype);

/// Writes the numbers, which are of `dtype`; returns what follows them.
std::byte* WriteNumbers(const PickleSequence& items, chunk::DType dtype, std::byte* to);

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_PICKLE_NUMBER_RUNS_H_
