#ifndef TFOS_COLUMNS_PICKLE_PICKLE_OBJECTS_H_
#define TFOS_COLUMNS_PICKLE_PICKLE_OBJECTS_H_

#include <optional>
#include <string_view>

#include "columns/pickle/arena.h"
#include "columns/pickle/pickle_value.h"

namespace tfos::columns {

// The few functions and classes that a pickle may name, and what they make: NumPy's arrays, scalars
// and dtypes, and Spark's Rows. Nothing is imported or called.
//
// Owner and lifetime: values live in the arena and borrow the pickle. Threads: one at a time.
// Errors: none or false for whatever else a pickle may say.

/// A function or class by its names.
std::optional<PickleValue> FindGlobal(std::string_view module, std::string_view name);

/// What REDUCE makes: `callable`, if it is a known one, of `arguments`.
std::optional<PickleValue> CallGlobal(Arena& arena, const PickleValue& callable,
                                      const PickleValue& arguments);

/// What BUILD does: gives `object` its state.
bool SetState(Arena& arena, const PickleValue& object, const PickleValue& state);

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_PICKLE_PICKLE_OBJECTS_H_
