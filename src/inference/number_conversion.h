#ifndef TFOS_INFERENCE_NUMBER_CONVERSION_H_
#define TFOS_INFERENCE_NUMBER_CONVERSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tfos::inference {

/// Whether numbers of one TF_DataType become another: integers any integers (in their range) and
/// floats, floats any floats, bool itself alone.
bool CanConvert(int from, int to);

/// Converts numbers that CanConvert allows to the front of `out`. Floats are rounded to the
/// nearest. Returns the position of the first integer that `to` does not have; none: all went well.
/// Of types that CanConvert refuses it is the first number, and nothing is written.
std::optional<std::size_t> ConvertNumbers(int from, std::span<const std::byte> numbers, int to,
                                          std::byte* out);

}  // namespace tfos::inference

#endif  // TFOS_INFERENCE_NUMBER_CONVERSION_H_
