#ifndef TFOS_PYTHON_CODEC_ROW_REFUSAL_H_
#define TFOS_PYTHON_CODEC_ROW_REFUSAL_H_

#include <cstddef>
#include <string>

#include "python/objects/python_object.h"

namespace tfos::python {

/// Why rows [begin, end) of the list, which RowEncoder has found no columns for, have none: which
/// field of them, and which type it is, as a clause: "field 'x' of a row is a set". It looks at the
/// rows anew, slowly, for a message alone.
///
/// Threads: with the GIL. Errors: throws nb::python_error with what a row raises.
std::string WhyNoColumns(const nb::list& rows, std::size_t begin, std::size_t end);

}  // namespace tfos::python

#endif  // TFOS_PYTHON_CODEC_ROW_REFUSAL_H_
