#include "collective/element.h"

#include <cmath>
#include <cstring>
#include <type_traits>

#include "collective/half.h"

// Built for what the processor has: wide vectors at run time, without a build of its own.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_THREAD__)
#define TFOS_VECTORIZED __attribute__((target_clones("avx2", "default"), optimize("O3")))
#else
#define TFOS_VECTORIZED
#endif

namespace tfos::collective {
namespace {

template <typename T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void Store(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof(T));
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

TFOS_VECTORIZED void ScaleFloats(float factor, std::byte* elements, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Store(Load<float>(elements + i * 4) * factor, elements + i * 4);
  }
}

template <typename T>
void Add(std::span<const std::byte> from, std::span<std::byte> to) {
  for (std::size_t i = 0; i + sizeof(T) <= to.size(); i += sizeof(T)) {
    Store(Sum(Load<T>(to.data() + i), Load<T>(from.data() + i)), to.data() + i);
  }
}

template <typename T>
void Scale(double factor, std::span<std::byte> elements) {
  for (std::size_t i = 0; i + sizeof(T) <= elements.size(); i += sizeof(T)) {
    Store(Scaled(Load<T>(elements.data() + i), factor), elements.data() + i);
  }
}

}  // namespace

std::size_t ElementBytes(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
    case DType::kInt32:
      return 4;
    case DType::kFloat64:
    case DType::kInt64:
      return 8;
    case DType::kFloat16:
    case DType::kBfloat16:
      return 2;
    case DType::kBytes:
      return 1;
  }
  return 0;
}

std::string_view DTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kInt32:
      return "int32";
    case DType::kInt64:
      return "int64";
    case DType::kFloat16:
      return "float16";
    case DType::kBfloat16:
      return "bfloat16";
    case DType::kBytes:
      return "bytes";
  }
  return "an unknown type";
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

void ScaleElements(DType dtype, double factor, std::span<std::byte> elements) {
  switch (dtype) {
    case DType::kFloat32:
      return ScaleFloats(static_cast<float>(factor), elements.data(),
                         elements.size() / sizeof(float));
    case DType::kFloat64:
      return Scale<double>(factor, elements);
    case DType::kInt32:
      return Scale<std::int32_t>(factor, elements);
    case DType::kInt64:
      return Scale<std::int64_t>(factor, elements);
    case DType::kFloat16:
      return Scale<Float16>(factor, elements);
    case DType::kBfloat16:
      return Scale<Bfloat16>(factor, elements);
    case DType::kBytes:
      return;
  }
}

}  // namespace tfos::collective
