#ifndef TFOS_CHUNK_DTYPE_H_
#define TFOS_CHUNK_DTYPE_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tfos::chunk {

/// What the elements of a column are. The numbers are those of the format.
enum class DType : std::uint8_t {
  kNone = 0,
  kBool = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint8 = 6,
  kUint16 = 7,
  kUint32 = 8,
  kUint64 = 9,
  kFloat16 = 10,
  kFloat32 = 11,
  kFloat64 = 12,
  kComplex64 = 13,
  kComplex128 = 14,
};

/// What NumPy says of a type.
struct DTypeInfo {
  DType dtype = DType::kNone;
  std::string_view name = "none";
  char kind = 0;           ///< Its `dtype.kind`.
  char code = 0;           ///< Its `dtype.char`; 'q' and 'Q' are types of their own.
  std::uint8_t bytes = 0;  ///< Of one element.
};

/// All types, by their numbers.
inline constexpr DTypeInfo kDTypes[] = {
    {},
    {DType::kBool, "bool", 'b', '?', 1},
    {DType::kInt8, "int8", 'i', 'b', 1},
    {DType::kInt16, "int16", 'i', 'h', 2},
    {DType::kInt32, "int32", 'i', 'i', 4},
    {DType::kInt64, "int64", 'i', 'l', 8},
    {DType::kUint8, "uint8", 'u', 'B', 1},
    {DType::kUint16, "uint16", 'u', 'H', 2},
    {DType::kUint32, "uint32", 'u', 'I', 4},
    {DType::kUint64, "uint64", 'u', 'L', 8},
    {DType::kFloat16, "float16", 'f', 'e', 2},
    {DType::kFloat32, "float32", 'f', 'f', 4},
    {DType::kFloat64, "float64", 'f', 'd', 8},
    {DType::kComplex64, "complex64", 'c', 'F', 8},
    {DType::kComplex128, "complex128", 'c', 'D', 16},
};
inline constexpr std::size_t kDTypeCount = sizeof(kDTypes) / sizeof(kDTypes[0]);

static_assert([] {
  for (std::size_t i = 0; i < kDTypeCount; ++i) {
    if (static_cast<std::size_t>(kDTypes[i].dtype) != i) return false;
  }
  return true;
}());

/// Bytes of one element; 0 for kNone and for numbers that the format does not define.
constexpr std::size_t DTypeBytes(DType dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  return number < kDTypeCount ? kDTypes[number].bytes : 0;
}

/// NumPy's name of it, "none" for kNone, "unknown" for other numbers.
constexpr std::string_view DTypeName(DType dtype) {
  const auto number = static_cast<std::size_t>(dtype);
  return number < kDTypeCount ? kDTypes[number].name : "unknown";
}

/// The type with NumPy's name `name`; kNone if there is none.
constexpr DType DTypeFromName(std::string_view name) {
  for (const DTypeInfo& type : kDTypes) {
    if (type.name == name) return type.dtype;
  }
  return DType::kNone;
}

}  // namespace tfos::chunk

#endif  // TFOS_CHUNK_DTYPE_H_
