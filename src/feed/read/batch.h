#ifndef TFOS_FEED_READ_BATCH_H_
#define TFOS_FEED_READ_BATCH_H_

#include <cstdint>
#include <vector>

#include "columns/batch_columns.h"

namespace tfos::feed {

/// What a program wants of a queue. A value. Threads: plain data.
struct BatchOptions {
  std::uint64_t rows = 0;
  /// Rows at the end of an epoch that fill no batch are thrown away.
  bool drop_remainder = false;
  /// What to hand out, in this order. Other columns of the rows are passed over.
  std::vector<columns::BatchColumnType> columns = {};

  friend bool operator==(const BatchOptions&, const BatchOptions&) = default;
};

/// Rows as columns. A value, with a share of its memory. Threads: plain data.
struct Batch {
  std::uint64_t rows = 0;
  std::vector<columns::BatchColumn> columns;  ///< As BatchOptions has them.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_BATCH_H_
