#ifndef TFOS_COLUMNS_ARROW_ARROW_EXPORT_H_
#define TFOS_COLUMNS_ARROW_ARROW_EXPORT_H_

#include <memory>

#include "arrow/c_data.h"
#include "base/memory/aligned_buffer.h"
#include "tfos/status.h"

namespace tfos::columns {

/// Hands the rows of a columnar chunk to another library as an Arrow struct array, in the types
/// that Spark reads: lists, text and binary with offsets of 32 bits.
///
/// A row's fields are the children, named by their keys or else by their positions, from "0"; a row
/// that is one value is a struct of the single child "0". Numbers, text and binary stay where they
/// are; offsets and Arrow's packed booleans are made anew. A value of n dimensions is n lists, one
/// inside the other; a nested list of different things, tuple, dict or Row is a struct.
///
/// Owner and lifetime: both structs are the caller's to release; the array shares the chunk's
/// memory until then. Threads: any.
/// Errors: kBadInput for anything but a columnar chunk, kUnsupported for complex numbers, which
/// Arrow does not have, and for more than 2^31 elements in a column. Then nothing is exported.
Status ExportToArrow(std::shared_ptr<const AlignedBuffer> chunk, ArrowSchema& schema,
                     ArrowArray& array);

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_ARROW_ARROW_EXPORT_H_
