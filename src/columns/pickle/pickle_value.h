#ifndef TFOS_COLUMNS_PICKLE_PICKLE_VALUE_H_
#define TFOS_COLUMNS_PICKLE_PICKLE_VALUE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/memory/unaligned.h"
#include "chunk/chunk.h"

namespace tfos::columns {

// What a pickle says, as light values: nothing is imported, called or run. They live in the
// reader's arena; text, bytes, floats of lists and the data of arrays stay in the pickle.

struct PickleArray;
struct PickleRow;
struct PickleSequence;

enum class PickleKind : std::uint8_t {
  kNone,
  kBool,
  kInt,  ///< Of 64 bits; larger ones are refused.
  kFloat,
  kText,  ///< Not yet known to be UTF-8.
  kBytes,
  kList,
  kTuple,
  kDict,
  kSparkRow,
  kNumpyScalar,
  kNumpyArray,
  kByteArray,
  kNumpyDType,  ///< `numpy.dtype`: of an array or a scalar.
  kGlobal,      ///< A function or class; `number` says which.
};

struct PickleValue {
  PickleKind kind = PickleKind::kNone;
  chunk::DType dtype = chunk::DType::kNone;  ///< kNumpyScalar and kNumpyDType.
  std::uint32_t size = 0;  ///< Bytes of kText, kBytes, kByteArray and kNumpyScalar.
  union {
    std::int64_t number = 0;  ///< kInt, kBool, kGlobal.
    double real;              ///< kFloat.
    const std::byte* bytes;   ///< kText, kBytes, kByteArray, kNumpyScalar.
    PickleSequence* items;    ///< kList, kTuple; kDict: its keys and values in turn.
    PickleRow* row;           ///< kSparkRow.
    PickleArray* array;       ///< kNumpyArray.
  };

  std::string_view text() const { return {reinterpret_cast<const char*>(bytes), size}; }
};
static_assert(sizeof(PickleValue) == 16);

/// Items that follow each other in a list, tuple or dict.
struct PickleRun {
  enum class Form : std::uint8_t {
    kValues,
    kFloats,  ///< The floats' own opcodes: each one's byte, then 8 bytes, the highest first.
    kInts,
  };
  static constexpr std::size_t kFloatBytes = 9;

  Form form = Form::kValues;
  std::uint64_t size = 0;
  union {
    const PickleValue* values = nullptr;
    const std::byte* floats;
    const std::int64_t* ints;
  };
  PickleRun* next = nullptr;

  /// Number `index` of kFloats.
  double Float(std::uint64_t index) const {
    return std::bit_cast<double>(
        __builtin_bswap64(Load<std::uint64_t>(floats + index * kFloatBytes + 1)));
  }
};

/// The items of a list, tuple or dict: those of `first` and of the runs that follow it. A tuple has
/// one run.
struct PickleSequence {
  std::uint64_t size = 0;
  PickleRun first = {};
  PickleRun* last = nullptr;
};

/// A `pyspark.sql.Row`.
struct PickleRow {
  /// A list of the names, or a Row of them; None for a Row without names.
  PickleValue fields;
  PickleSequence* values = nullptr;
};

/// A writable `numpy.ndarray` of native byte order, in C order.
struct PickleArray {
  chunk::DType dtype = chunk::DType::kNone;  ///< kNone: made, but not yet filled.
  std::uint32_t rank = 0;
  const std::uint64_t* shape = nullptr;
  std::span<const std::byte> data = {};
};

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_PICKLE_PICKLE_VALUE_H_
