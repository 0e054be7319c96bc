#include "collective/operation/element.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/memory/half.h"
#include "base/memory/unaligned.h"

// Built for what the processor has: wide vectors at run time, without a build of its own.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define TFOS_VECTORIZED __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define TFOS_VECTORIZED
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#include <immintrin.h>
#define TFOS_HAS_F16C
#define TFOS_F16C __attribute__((target("avx2,f16c")))
#endif

namespace tfos::collective {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  std::size_t bytes;  ///< Of one element.
};

constexpr DTypeInfo kDTypes[] = {
    {DType::kFloat32, "float32", 4}, {DType::kFloat64, "float64", 8},
    {DType::kInt32, "int32", 4},     {DType::kInt64, "int64", 8},
    {DType::kFloat16, "float16", 2}, {DType::kBfloat16, "bfloat16", 2},
    {DType::kBytes, "bytes", 1},
};

const DTypeInfo* Find(DType dtype) {
  for (const DTypeInfo& info : kDTypes) {
    if (info.dtype == dtype) return &info;
  }
  return nullptr;
}

template <typename T>
T Sum(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return T::FromFloat(a.ToFloat() + b.ToFloat());
  }
}

template <typename T>
T Scaled(T value, double factor) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(std::trunc(static_cast<double>(value) * factor));
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value * static_cast<T>(factor));
  } else {
    return T::FromFloat(static_cast<float>(value.ToFloat() * factor));
  }
}

TFOS_VECTORIZED void AddFloats(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Store(Load<float>(to + i * 4) + Load<float>(from + i * 4), to + i * 4);
  }
}

TFOS_VECTORIZED void ScaleFloats(float factor, const std::byte* from, std::byte* to,
                                 std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) Store(Load<float>(from + i * 4) * factor, to + i * 4);
}

/// As bits, whose order is that of the magnitudes.
TFOS_VECTORIZED std::int32_t LargestBits(const std::byte* elements, std::size_t count) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t bits = Load<std::int32_t>(elements + i * 4) & 0x7fffffff;
    const std::int32_t counted = bits < 0x7f800000 ? bits : 0;
    largest = counted > largest ? counted : largest;
  }
  return largest;
}

template <typename T>
void Add(std::span<const std::byte> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i + sizeof(T) <= to.size(); i += sizeof(T)) {
    Store(Sum(Load<T>(to.data() + i), Load<T>(from.data() + i)), to.data() + i);
  }
}

template <typename T>
void Scale(double factor, std::span<const std::byte> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i + sizeof(T) <= to.size(); i += sizeof(T)) {
    Store(Scaled(Load<T>(from.data() + i), factor), to.data() + i);
  }
}

/// `Use(wide, value)` says what becomes of a float32 to which `value` comes.
template <typename T, float (*kUse)(float, float)>
void Widen(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Store(kUse(Load<float>(to + i * 4), Load<T>(from + i * 2).ToFloat()), to + i * 4);
  }
}

constexpr float Replaced(float, float value) { return value; }
constexpr float Added(float wide, float value) { return wide + value; }

TFOS_VECTORIZED void NarrowToBfloat16(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto all = Load<std::uint32_t>(from + i * 4);
    const std::uint32_t rounded = (all + 0x7fffU + (all >> 16 & 1U)) >> 16;
    const std::uint32_t not_a_number = all >> 16 | 0x40U;
    const bool is_number = (all & 0x7fffffffU) <= 0x7f800000U;
    Store(static_cast<std::uint16_t>(is_number ? rounded : not_a_number), to + i * 2);
  }
}

TFOS_VECTORIZED void WidenBfloat16(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Store(static_cast<std::uint32_t>(Load<std::uint16_t>(from + i * 2)) << 16, to + i * 4);
  }
}

TFOS_VECTORIZED void AddBfloat16(const std::byte* from, std::byte* to, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const float value =
        std::bit_cast<float>(static_cast<std::uint32_t>(Load<std::uint16_t>(from + i * 2)) << 16);
    Store(Load<float>(to + i * 4) + value, to + i * 4);
  }
}

#if defined(TFOS_HAS_F16C)
// The processor's own conversions, eight at a time; both round to nearest even.
TFOS_F16C std::size_t NarrowEights(const std::byte* from, std::byte* to, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 wide = _mm256_loadu_ps(reinterpret_cast<const float*>(from + i * 4));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i * 2),
                     _mm256_cvtps_ph(wide, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}

TFOS_F16C std::size_t WidenEights(const std::byte* from, std::byte* to, std::size_t count,
                                  bool add) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    auto* const place = reinterpret_cast<float*>(to + i * 4);
    __m256 wide = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * 2)));
    if (add) wide = _mm256_add_ps(_mm256_loadu_ps(place), wide);
    _mm256_storeu_ps(place, wide);
  }
  return i;
}

/// Clang's `__builtin_cpu_supports` doesn't know F16C.
bool HasF16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) != 0 &&
         (c & bit_F16C) != 0;
}
#endif

void NarrowToFloat16(const std::byte* from, std::byte* to, std::size_t count) {
  std::size_t done = 0;
#if defined(TFOS_HAS_F16C)
  if (HasF16c()) done = NarrowEights(from, to, count);
#endif
  for (std::size_t i = done; i < count; ++i) {
    Store(Float16::FromFloat(Load<float>(from + i * 4)), to + i * 2);
  }
}

void WidenFloat16(const std::byte* from, std::byte* to, std::size_t count, bool add) {
  std::size_t done = 0;
#if defined(TFOS_HAS_F16C)
  if (HasF16c()) done = WidenEights(from, to, count, add);
#endif
  from += done * 2;
  to += done * 4;
  count -= done;
  add ? Widen<Float16, Added>(from, to, count) : Widen<Float16, Replaced>(from, to, count);
}

}  // namespace

std::size_t ElementBytes(DType dtype) {
  const DTypeInfo* const info = Find(dtype);
  return info == nullptr ? 0 : info->bytes;
}

std::string_view DTypeName(DType dtype) {
  const DTypeInfo* const info = Find(dtype);
  return info == nullptr ? "an unknown type" : info->name;
}

void AddElements(DType dtype, std::span<const std::byte> from, std::span<std::byte> to) {
  switch (dtype) {
    case DType::kFloat32:
      return AddFloats(from.data(), to.data(), to.size() / sizeof(float));
    case DType::kFloat64:
      return Add<double>(from, to);
    case DType::kInt32:
      return Add<std::int32_t>(from, to);
    case DType::kInt64:
      return Add<std::int64_t>(from, to);
    case DType::kFloat16:
      return Add<Float16>(from, to);
    case DType::kBfloat16:
      return Add<Bfloat16>(from, to);
    case DType::kBytes:
      return;
  }
}

void ScaleElements(DType dtype, double factor, std::span<const std::byte> from,
                   std::span<std::byte> to) {
  switch (dtype) {
    case DType::kFloat32:
      return ScaleFloats(static_cast<float>(factor), from.data(), to.data(),
                         to.size() / sizeof(float));
    case DType::kFloat64:
      return Scale<double>(factor, from, to);
    case DType::kInt32:
      return Scale<std::int32_t>(factor, from, to);
    case DType::kInt64:
      return Scale<std::int64_t>(factor, from, to);
    case DType::kFloat16:
      return Scale<Float16>(factor, from, to);
    case DType::kBfloat16:
      return Scale<Bfloat16>(factor, from, to);
    case DType::kBytes:
      return;
  }
}

float LargestMagnitude(std::span<const std::byte> elements) {
  return std::bit_cast<float>(LargestBits(elements.data(), elements.size() / sizeof(float)));
}

void NarrowElements(DType narrow, std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t count = to.size() / 2;
  if (narrow == DType::kBfloat16) {
    NarrowToBfloat16(from.data(), to.data(), count);
  } else {
    NarrowToFloat16(from.data(), to.data(), count);
  }
}

void WidenElements(DType narrow, std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t count = from.size() / 2;
  if (narrow == DType::kBfloat16) {
    WidenBfloat16(from.data(), to.data(), count);
  } else {
    WidenFloat16(from.data(), to.data(), count, false);
  }
}

void AddNarrowElements(DType narrow, std::span<const std::byte> from, std::span<std::byte> to) {
  const std::size_t count = from.size() / 2;
  if (narrow == DType::kBfloat16) {
    AddBfloat16(from.data(), to.data(), count);
  } else {
    WidenFloat16(from.data(), to.data(), count, true);
  }
}

}  // namespace tfos::collective
