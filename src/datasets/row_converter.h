#ifndef TFOS_DATASETS_ROW_CONVERTER_H_
#define TFOS_DATASETS_ROW_CONVERTER_H_

#include <cstddef>
#include <span>

#include "base/memory/aligned_buffer.h"
#include "tfos/status.h"

namespace tfos::datasets {

/// Makes a columnar chunk of a pickled one: unpickles its rows and encodes them anew.
///
/// Threads: any, also those that Python doesn't know; takes the GIL. Errors: kBadInput with what
/// unpickling raised, and for rows that have no common columnar structure.
Result<AlignedBuffer> ConvertToColumns(std::span<const std::byte> chunk);

}  // namespace tfos::datasets

#endif  // TFOS_DATASETS_ROW_CONVERTER_H_
