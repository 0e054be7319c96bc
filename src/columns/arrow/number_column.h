#ifndef TFOS_COLUMNS_ARROW_NUMBER_COLUMN_H_
#define TFOS_COLUMNS_ARROW_NUMBER_COLUMN_H_

#include <cstdint>
#include <memory>

#include "arrow/c_data.h"
#include "columns/arrow/column.h"
#include "columns/arrow/lists.h"
#include "columns/arrow/number_type.h"
#include "tfos/status.h"

namespace tfos::columns {

/// A column of numbers, or of lists of them at any depth. `schema` and `array` are of what the
/// lists hold, of which the rows need `elements`.
Result<std::unique_ptr<Column>> OpenNumberColumn(const ColumnId& id, Lists lists,
                                                 const ArrowSchema& schema, const ArrowArray& array,
                                                 std::int64_t elements, Decimals decimals);

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_ARROW_NUMBER_COLUMN_H_
