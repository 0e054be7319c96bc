#include "columns/pickle/pickle_objects.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

namespace tfos::columns {
namespace {

enum class Global : std::int64_t {
  kDType,
  kNdarray,
  kFromBuffer,
  kReconstructArray,
  kScalar,
  kCreateRow,
  kRow,
  kReconstruct,
  kTuple,
};

struct GlobalName {
  std::string_view module;
  std::string_view name;
  Global global;
};

// numpy.core is what NumPy 1 writes and NumPy 2 still takes, numpy._core what NumPy 2 writes.
constexpr GlobalName kGlobals[] = {
    {"numpy", "dtype", Global::kDType},
    {"numpy", "ndarray", Global::kNdarray},
    {"numpy._core.numeric", "_frombuffer", Global::kFromBuffer},
    {"numpy.core.numeric", "_frombuffer", Global::kFromBuffer},
    {"numpy._core.multiarray", "_reconstruct", Global::kReconstructArray},
    {"numpy.core.multiarray", "_reconstruct", Global::kReconstructArray},
    {"numpy._core.multiarray", "scalar", Global::kScalar},
    {"numpy.core.multiarray", "scalar", Global::kScalar},
    {"pyspark.sql.types", "_create_row", Global::kCreateRow},
    {"pyspark.sql.types", "Row", Global::kRow},
    {"copyreg", "_reconstructor", Global::kReconstruct},
    {"builtins", "tuple", Global::kTuple},
};

// Chunks, and so the data of arrays in them, are far below this.
constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 48;

bool Is(const PickleValue& value, Global global) {
  return value.kind == PickleKind::kGlobal && value.number == static_cast<std::int64_t>(global);
}

bool IsInt(const PickleValue& value, std::int64_t number) {
  return value.kind == PickleKind::kInt && value.number == number;
}

bool IsText(const PickleValue& value, std::string_view text) {
  return value.kind == PickleKind::kText && value.text() == text;
}

/// The items of a tuple if it has `count` ones, none of them in a form of its own.
const PickleValue* TupleOf(const PickleValue& value, std::size_t count) {
  if (value.kind != PickleKind::kTuple || value.items->size != count ||
      value.items->first.form != PickleRun::Form::kValues) {
    return nullptr;
  }
  return value.items->first.values;
}

/// Bytes of an array; none beyond what any chunk has.
std::optional<std::uint64_t> ArrayBytes(chunk::DType dtype, std::span<const std::uint64_t> shape) {
  std::uint64_t bytes = chunk::DTypeBytes(dtype);
  for (const std::uint64_t dimension : shape) {
    if (dimension != 0 && bytes > kMaxArrayBytes / dimension) return std::nullopt;
    bytes *= dimension;
  }
  return bytes;
}

/// Makes `array` of what its pickle says; false when the data have another size.
bool Describe(Arena& arena, PickleArray& array, chunk::DType dtype, const PickleValue& shape,
              const PickleValue& data) {
  if (shape.kind != PickleKind::kTuple || shape.items->size > chunk::kMaxTensorRank) return false;
  const PickleRun& run = shape.items->first;
  auto* const dimensions = arena.Allocate<std::uint64_t>(run.size);
  for (std::uint64_t i = 0; i < run.size; ++i) {
    std::int64_t dimension = -1;
    if (run.form == PickleRun::Form::kInts) {
      dimension = run.ints[i];
    } else if (run.form == PickleRun::Form::kValues && run.values[i].kind == PickleKind::kInt) {
      dimension = run.values[i].number;
    }
    if (dimension < 0) return false;
    dimensions[i] = static_cast<std::uint64_t>(dimension);
  }
  if (ArrayBytes(dtype, {dimensions, run.size}) != data.size) return false;
  array = {.dtype = dtype,
           .rank = static_cast<std::uint32_t>(run.size),
           .shape = dimensions,
           .data = {data.bytes, data.size}};
  return true;
}

PickleValue RowValue(Arena& arena, const PickleRow& row) {
  return {.kind = PickleKind::kSparkRow, .row = arena.New(row)};
}

/// The type that NumPy's pickles call by its kind and bytes, such as "f8"; kNone if there is none.
chunk::DType DTypeNamed(std::string_view text) {
  unsigned bytes = 0;
  if (text.size() < 2 || text[1] == '0') return chunk::DType::kNone;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data() + 1, end, bytes);
  if (parsed.ec != std::errc() || parsed.ptr != end) return chunk::DType::kNone;
  for (const chunk::DTypeInfo& type : chunk::kDTypes) {
    if (type.bytes == bytes && type.kind == text[0]) return type.dtype;
  }
  return chunk::DType::kNone;
}

/// numpy.dtype(text, align=False, copy=...)
std::optional<PickleValue> MakeDType(const PickleValue* arguments) {
  if (arguments == nullptr || arguments[0].kind != PickleKind::kText) return std::nullopt;
  const bool plain = arguments[1].kind == PickleKind::kBool && arguments[1].number == 0 &&
                     arguments[2].kind == PickleKind::kBool;
  if (!plain) return std::nullopt;
  const chunk::DType dtype = DTypeNamed(arguments[0].text());
  if (dtype == chunk::DType::kNone) return std::nullopt;
  return PickleValue{.kind = PickleKind::kNumpyDType, .dtype = dtype, .number = 0};
}

/// Whether the state of a dtype says nothing but that it is little-endian.
bool IsPlain(chunk::DType dtype, const PickleValue& state) {
  const PickleValue* const parts = TupleOf(state, 8);
  return parts != nullptr && IsInt(parts[0], 3) &&
         IsText(parts[1], chunk::DTypeBytes(dtype) == 1 ? "|" : "<") &&
         parts[2].kind == PickleKind::kNone && parts[3].kind == PickleKind::kNone &&
         parts[4].kind == PickleKind::kNone && IsInt(parts[5], -1) && IsInt(parts[6], -1) &&
         IsInt(parts[7], 0);
}

/// _frombuffer(buffer, dtype, shape, order). Of other buffers than bytearrays it could not be
/// written to, and isn't a column then.
std::optional<PickleValue> MakeArray(Arena& arena, const PickleValue* arguments) {
  if (arguments == nullptr || arguments[0].kind != PickleKind::kByteArray ||
      arguments[1].kind != PickleKind::kNumpyDType || !IsText(arguments[3], "C")) {
    return std::nullopt;
  }
  PickleArray array;
  if (!Describe(arena, array, arguments[1].dtype, arguments[2], arguments[0])) return std::nullopt;
  return PickleValue{.kind = PickleKind::kNumpyArray, .array = arena.New(array)};
}

/// _reconstruct(numpy.ndarray, (0,), b"b"), which only takes its meaning from BUILD.
std::optional<PickleValue> MakeUnfilledArray(Arena& arena, const PickleValue* arguments) {
  if (arguments == nullptr || !Is(arguments[0], Global::kNdarray)) return std::nullopt;
  const PickleValue* const shape = TupleOf(arguments[1], 1);
  if (shape == nullptr || !IsInt(shape[0], 0) || arguments[2].kind != PickleKind::kBytes ||
      arguments[2].text() != "b") {
    return std::nullopt;
  }
  return PickleValue{.kind = PickleKind::kNumpyArray, .array = arena.New(PickleArray{})};
}

/// (version, shape, dtype, is Fortran order, data)
bool FillArray(Arena& arena, PickleArray& array, const PickleValue* state) {
  return array.dtype == chunk::DType::kNone && state != nullptr && IsInt(state[0], 1) &&
         state[2].kind == PickleKind::kNumpyDType && state[3].kind == PickleKind::kBool &&
         state[3].number == 0 && state[4].kind == PickleKind::kBytes &&
         Describe(arena, array, state[2].dtype, state[1], state[4]);
}

/// scalar(dtype, bytes)
std::optional<PickleValue> MakeScalar(const PickleValue* arguments) {
  if (arguments == nullptr || arguments[0].kind != PickleKind::kNumpyDType ||
      arguments[1].kind != PickleKind::kBytes ||
      arguments[1].size != chunk::DTypeBytes(arguments[0].dtype)) {
    return std::nullopt;
  }
  return PickleValue{.kind = PickleKind::kNumpyScalar,
                     .dtype = arguments[0].dtype,
                     .size = arguments[1].size,
                     .bytes = arguments[1].bytes};
}

/// _create_row(names, values)
std::optional<PickleValue> MakeRow(Arena& arena, const PickleValue* arguments) {
  if (arguments == nullptr || arguments[1].kind != PickleKind::kTuple) return std::nullopt;
  const PickleValue& fields = arguments[0];
  const bool named =
      fields.kind == PickleKind::kList ||
      (fields.kind == PickleKind::kSparkRow && fields.row->fields.kind == PickleKind::kNone);
  if (!named) return std::nullopt;
  return RowValue(arena, {.fields = fields, .values = arguments[1].items});
}

/// _reconstructor(Row, tuple, values): what Row("a", "b") is, whose calls make Rows.
std::optional<PickleValue> MakeRowWithoutNames(Arena& arena, const PickleValue* arguments) {
  if (arguments == nullptr || !Is(arguments[0], Global::kRow) ||
      !Is(arguments[1], Global::kTuple) || arguments[2].kind != PickleKind::kTuple) {
    return std::nullopt;
  }
  return RowValue(arena, {.fields = {}, .values = arguments[2].items});
}

}  // namespace

std::optional<PickleValue> FindGlobal(std::string_view module, std::string_view name) {
  for (const GlobalName& known : kGlobals) {
    if (known.module == module && known.name == name) {
      return PickleValue{.kind = PickleKind::kGlobal,
                         .number = static_cast<std::int64_t>(known.global)};
    }
  }
  return std::nullopt;
}

std::optional<PickleValue> CallGlobal(Arena& arena, const PickleValue& callable,
                                      const PickleValue& arguments) {
  if (callable.kind != PickleKind::kGlobal) return std::nullopt;
  switch (static_cast<Global>(callable.number)) {
    case Global::kDType:
      return MakeDType(TupleOf(arguments, 3));
    case Global::kFromBuffer:
      return MakeArray(arena, TupleOf(arguments, 4));
    case Global::kReconstructArray:
      return MakeUnfilledArray(arena, TupleOf(arguments, 3));
    case Global::kScalar:
      return MakeScalar(TupleOf(arguments, 2));
    case Global::kCreateRow:
      return MakeRow(arena, TupleOf(arguments, 2));
    case Global::kReconstruct:
      return MakeRowWithoutNames(arena, TupleOf(arguments, 3));
    case Global::kNdarray:
    case Global::kRow:
    case Global::kTuple:
      break;
  }
  return std::nullopt;
}

bool SetState(Arena& arena, const PickleValue& object, const PickleValue& state) {
  if (object.kind == PickleKind::kNumpyDType) return IsPlain(object.dtype, state);
  return object.kind == PickleKind::kNumpyArray &&
         FillArray(arena, *object.array, TupleOf(state, 5));
}

}  // namespace tfos::columns
