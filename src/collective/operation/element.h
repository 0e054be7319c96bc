#ifndef TFOS_COLLECTIVE_OPERATION_ELEMENT_H_
#define TFOS_COLLECTIVE_OPERATION_ELEMENT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tfos::collective {

/// What tensors hold, as docs/formats/tensor-protocol.md numbers it.
enum class DType : std::uint8_t {
  kFloat32 = 1,
  kFloat64 = 2,
  kInt32 = 3,
  kInt64 = 4,
  kFloat16 = 5,
  kBfloat16 = 6,
  kBytes = 7,  ///< Moved, never added.
};

/// Bytes of one; 0 for a number that is none.
std::size_t ElementBytes(DType dtype);
/// NumPy's name, for messages.
std::string_view DTypeName(DType dtype);

/// Adds `from` to `to`, element by element. Both have the same size, which is a whole number of
/// elements; neither needs to be aligned. Sums of float16 and bfloat16 are rounded to nearest even;
/// integers wrap around. Not for kBytes.
void AddElements(DType dtype, std::span<const std::byte> from, std::span<std::byte> to);

/// Multiplies by `factor`; integers are rounded towards zero. `to` has the size of `from`, and may
/// be the same memory. Not for kBytes.
void ScaleElements(DType dtype, double factor, std::span<const std::byte> from,
                   std::span<std::byte> to);

/// The largest magnitude among float32 elements; infinite ones and NaN don't count. 0 if there is
/// none.
float LargestMagnitude(std::span<const std::byte> elements);

/// Whether float32 can be made narrower as `dtype`: float16 or bfloat16.
constexpr bool IsNarrow(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBfloat16;
}
/// Rounds float32 elements to a narrow type, to nearest even. `to` has as many elements.
void NarrowElements(DType narrow, std::span<const std::byte> from, std::span<std::byte> to);
/// Makes float32 elements of those of a narrow type.
void WidenElements(DType narrow, std::span<const std::byte> from, std::span<std::byte> to);
/// Adds elements of a narrow type to float32 ones.
void AddNarrowElements(DType narrow, std::span<const std::byte> from, std::span<std::byte> to);

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_OPERATION_ELEMENT_H_
