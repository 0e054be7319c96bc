#ifndef TFOS_COLUMNS_ARROW_STRING_COLUMN_H_
#define TFOS_COLUMNS_ARROW_STRING_COLUMN_H_

#include <cstdint>
#include <memory>

#include "arrow/c_data.h"
#include "columns/arrow/column.h"
#include "columns/arrow/lists.h"
#include "tfos/status.h"

namespace tfos::columns {

/// A column of text or binary values, of any length or of one, or of lists of them at any depth.
/// `schema` and `array` are of what the lists hold, of which the rows need `elements`. Null when
/// that is of another type.
Result<std::unique_ptr<Column>> OpenStringColumn(const ColumnId& id, const Lists& lists,
                                                 const ArrowSchema& schema, const ArrowArray& array,
                                                 std::int64_t elements);

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_ARROW_STRING_COLUMN_H_
