#include "base/memory/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#endif

#include "base/memory/unaligned.h"

namespace tfos {
namespace {

// Reflected, as everything here: bit 31 is the coefficient of x^0.
constexpr std::uint32_t kPolynomial = 0x82F63B78;

constexpr std::uint32_t TimesX(std::uint32_t value) {
  return (value >> 1) ^ ((value & 1) != 0 ? kPolynomial : 0);
}

// -- tables, eight bytes a step

constexpr std::size_t kStep = 8;
using Tables = std::array<std::array<std::uint32_t, 256>, kStep>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = TimesX(value);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < kStep; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

std::uint32_t ExtendByTables(std::uint32_t crc, const std::byte* data, std::size_t bytes) {
  crc = ~crc;
  for (; bytes >= kStep; bytes -= kStep, data += kStep) {
    const std::uint64_t word = Load<std::uint64_t>(data) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < kStep; ++i) {
      crc ^= kTables[kStep - 1 - i][(word >> (8 * i)) & 0xFF];
    }
  }
  for (; bytes > 0; --bytes, ++data) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<std::uint32_t>(*data)) & 0xFF];
  }
  return ~crc;
}

#if defined(__x86_64__)

/// x^power modulo the polynomial.
constexpr std::uint32_t PowerOfX(std::uint64_t power) {
  std::uint32_t value = 0x80000000U;
  for (std::uint64_t i = 0; i < power; ++i) value = TimesX(value);
  return value;
}

// -- three interleaved streams of the crc32 instruction

// The instruction takes three cycles and can start every cycle, so three at a time hide its
// latency. The streams are put together by carry-less multiplication: behind n more bytes, a CRC
// counts as itself times x^(8n). The product of two reflected values is short of one power of x,
// and the instruction that reduces it adds 32: hence 33 less.
constexpr std::size_t kLongStream = 1024;
constexpr std::size_t kShortStream = 128;

constexpr std::size_t kCacheLine = 64;

constexpr std::uint32_t Shift(std::size_t bytes) { return PowerOfX(8 * bytes - 33); }

template <std::size_t kStream>
__attribute__((target("sse4.2,pclmul"))) inline std::uint64_t ThreeStreams(std::uint64_t crc,
                                                                           const std::byte* data) {
  constexpr std::uint32_t kShiftOne = Shift(kStream);
  constexpr std::uint32_t kShiftTwo = Shift(2 * kStream);
  std::uint64_t first = crc;
  std::uint64_t second = 0;
  std::uint64_t third = 0;
  for (std::size_t i = 0; i < kStream; i += kStep) {
    if (kStream == kLongStream && i % kCacheLine == 0) {
      // What lies behind, by three lines for each that is read: the processor does not guess the
      // pattern of three streams within a page. Behind the end of the memory it does nothing. (In a
      // function of its own the compiler would take it for one without an effect.)
      const auto* const behind = reinterpret_cast<const char*>(data + 3 * kStream + 3 * i);
      _mm_prefetch(behind, _MM_HINT_T0);
      _mm_prefetch(behind + kCacheLine, _MM_HINT_T0);
      _mm_prefetch(behind + 2 * kCacheLine, _MM_HINT_T0);
    }
    first = _mm_crc32_u64(first, Load<std::uint64_t>(data + i));
    second = _mm_crc32_u64(second, Load<std::uint64_t>(data + kStream + i));
    third = _mm_crc32_u64(third, Load<std::uint64_t>(data + 2 * kStream + i));
  }
  const __m128i product_one =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(first)),
                           _mm_cvtsi64_si128(static_cast<long long>(kShiftTwo)), 0);
  const __m128i product_two =
      _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(second)),
                           _mm_cvtsi64_si128(static_cast<long long>(kShiftOne)), 0);
  const auto both = _mm_cvtsi128_si64(_mm_xor_si128(product_one, product_two));
  return _mm_crc32_u64(0, static_cast<std::uint64_t>(both)) ^ third;
}

__attribute__((target("sse4.2,pclmul"))) std::uint32_t ExtendBySse42(std::uint32_t crc,
                                                                     const std::byte* data,
                                                                     std::size_t bytes) {
  std::uint64_t state = static_cast<std::uint32_t>(~crc);
  for (; bytes >= 3 * kLongStream; bytes -= 3 * kLongStream, data += 3 * kLongStream) {
    state = ThreeStreams<kLongStream>(state, data);
  }
  for (; bytes >= 3 * kShortStream; bytes -= 3 * kShortStream, data += 3 * kShortStream) {
    state = ThreeStreams<kShortStream>(state, data);
  }
  for (; bytes >= kStep; bytes -= kStep, data += kStep) {
    state = _mm_crc32_u64(state, Load<std::uint64_t>(data));
  }
  auto rest = static_cast<std::uint32_t>(state);
  for (; bytes > 0; --bytes, ++data) rest = _mm_crc32_u8(rest, static_cast<std::uint8_t>(*data));
  return ~rest;
}

// -- folding 256 bytes a step with 512-bit carry-less multiplication

// Four registers of four 128-bit lanes. A lane (a, b) = a * x^64 + b that lies n bits further on is
// a * x^(64 + n) + b * x^n. Reflected products are short of one power of x: hence 63 + n and n - 1.
struct FoldKeys {
  std::uint64_t low;   ///< For the lane's first eight bytes, which have the higher powers.
  std::uint64_t high;  ///< For its last eight.
};

/// Keys have 64 bits with x^0 at bit 63; those of 32 bits lie in the upper half.
constexpr FoldKeys KeysFor(std::size_t bits) {
  return {std::uint64_t{PowerOfX(bits + 63)} << 32, std::uint64_t{PowerOfX(bits - 1)} << 32};
}

constexpr std::size_t kFold = 256;
constexpr std::size_t kRegister = 64;
// Between other work, as in a reader of records, the wide registers gain nothing on shorter data.
constexpr std::size_t kLeastFolded = 8'192;
constexpr FoldKeys kFoldStep = KeysFor(8 * kFold);
constexpr FoldKeys kFoldRegister = KeysFor(8 * kRegister);

#define TFOS_TARGET_FOLD "avx512f,avx512vl,vpclmulqdq,pclmul,sse4.2"

__attribute__((target(TFOS_TARGET_FOLD))) inline __m512i Keys512(FoldKeys keys) {
  const auto low = static_cast<long long>(keys.low);
  const auto high = static_cast<long long>(keys.high);
  return _mm512_set4_epi64(high, low, high, low);
}

__attribute__((target(TFOS_TARGET_FOLD))) inline __m512i Fold(__m512i from, __m512i keys,
                                                              __m512i onto) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(from, keys, 0x00),
                                   _mm512_clmulepi64_epi128(from, keys, 0x11), onto, kXorOfThree);
}

__attribute__((target(TFOS_TARGET_FOLD))) std::uint32_t ExtendByFolding(std::uint32_t crc,
                                                                        const std::byte* data,
                                                                        std::size_t bytes) {
  if (bytes < kLeastFolded) return ExtendBySse42(crc, data, bytes);
  __m512i lanes[kFold / kRegister];
  for (std::size_t i = 0; i < std::size(lanes); ++i)
    lanes[i] = _mm512_loadu_si512(data + i * kRegister);
  lanes[0] =
      _mm512_xor_si512(lanes[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc))));
  data += kFold;
  bytes -= kFold;
  const __m512i step = Keys512(kFoldStep);
  for (; bytes >= kFold; bytes -= kFold, data += kFold) {
    for (std::size_t i = 0; i < std::size(lanes); ++i) {
      lanes[i] = Fold(lanes[i], step, _mm512_loadu_si512(data + i * kRegister));
    }
  }
  const __m512i next = Keys512(kFoldRegister);
  for (std::size_t i = 1; i < std::size(lanes); ++i) lanes[i] = Fold(lanes[i - 1], next, lanes[i]);
  // The last register holds what, read as bytes, has the CRC of everything so far.
  alignas(kRegister) std::byte last[kRegister];
  _mm512_store_si512(last, lanes[std::size(lanes) - 1]);
  // The compiler leaves it out before a call that ends the function; the upper halves would slow
  // down older vector instructions, anybody's.
  _mm256_zeroupper();
  std::uint64_t state = 0;
  for (std::size_t i = 0; i < kRegister; i += kStep) {
    state = _mm_crc32_u64(state, Load<std::uint64_t>(last + i));
  }
  return ExtendBySse42(~static_cast<std::uint32_t>(state), data, bytes);
}

bool HasSse42() { return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"); }

bool HasFolding() {
  return HasSse42() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("vpclmulqdq");
}

#elif defined(__ARM_FEATURE_CRC32)

std::uint32_t ExtendByArmv8(std::uint32_t crc, const std::byte* data, std::size_t bytes) {
  crc = ~crc;
  for (; bytes >= kStep; bytes -= kStep, data += kStep) {
    crc = __crc32cd(crc, Load<std::uint64_t>(data));
  }
  for (; bytes > 0; --bytes, ++data) crc = __crc32cb(crc, static_cast<std::uint8_t>(*data));
  return ~crc;
}

#endif

std::array<Crc32cWay, 3> FindWays() {
  std::array<Crc32cWay, 3> ways = {
      {{"folding", nullptr}, {"instruction", nullptr}, {"tables", &ExtendByTables}}};
#if defined(__x86_64__)
  if (HasFolding()) ways[0].extend = &ExtendByFolding;
  if (HasSse42()) ways[1].extend = &ExtendBySse42;
#elif defined(__ARM_FEATURE_CRC32)
  ways[1].extend = &ExtendByArmv8;
#endif
  return ways;
}

ExtendFunction FastestWay() {
  for (const Crc32cWay& way : Crc32cWays()) {
    if (way.extend != nullptr) return way.extend;
  }
  return &ExtendByTables;
}

}  // namespace

std::span<const Crc32cWay> Crc32cWays() {
  static const std::array<Crc32cWay, 3> ways = FindWays();
  return ways;
}

std::uint32_t ExtendCrc32c(std::uint32_t crc, std::span<const std::byte> bytes) {
  static const ExtendFunction extend = FastestWay();
  return extend(crc, bytes.data(), bytes.size());
}

}  // namespace tfos
