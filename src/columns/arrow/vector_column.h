#ifndef TFOS_COLUMNS_ARROW_VECTOR_COLUMN_H_
#define TFOS_COLUMNS_ARROW_VECTOR_COLUMN_H_

#include <cstdint>
#include <memory>

#include "arrow/c_data.h"
#include "columns/arrow/column.h"
#include "tfos/status.h"

namespace tfos::columns {

/// A column of vectors of Spark ML, of which the rows need `elements`. Null when the type is
/// another.
Result<std::unique_ptr<Column>> OpenVectorColumn(const ColumnId& id, const ArrowSchema& schema,
                                                 const ArrowArray& array, std::int64_t elements);

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_ARROW_VECTOR_COLUMN_H_
