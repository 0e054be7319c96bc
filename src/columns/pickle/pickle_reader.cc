#include "columns/pickle/pickle_reader.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tfos::columns {
namespace {

// Names and numbers as in CPython's Lib/pickletools.py. What is not here is refused.
enum Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kBinFloat = 'G',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kNone = 'N',
  kReduce = 'R',
  kBinUnicode = 'X',
  kEmptyList = ']',
  kAppend = 'a',
  kBuild = 'b',
  kGlobal = 'c',
  kAppends = 'e',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kSetItem = 's',
  kTuple = 't',
  kSetItems = 'u',
  kEmptyTuple = ')',
  kEmptyDict = '}',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kBinBytes8 = 0x8e,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
  kByteArray8 = 0x96,
};

constexpr std::uint8_t kHighestProtocol = 5;
constexpr std::uint64_t kMaxTextBytes = 0xFFFFFFFF;

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

constexpr std::pair<std::string_view, chunk::DType> kDTypes[] = {
    {"b1", chunk::DType::kBool},      {"i1", chunk::DType::kInt8},
    {"i2", chunk::DType::kInt16},     {"i4", chunk::DType::kInt32},
    {"i8", chunk::DType::kInt64},     {"u1", chunk::DType::kUint8},
    {"u2", chunk::DType::kUint16},    {"u4", chunk::DType::kUint32},
    {"u8", chunk::DType::kUint64},    {"f2", chunk::DType::kFloat16},
    {"f4", chunk::DType::kFloat32},   {"f8", chunk::DType::kFloat64},
    {"c8", chunk::DType::kComplex64}, {"c16", chunk::DType::kComplex128},
};

// Chunks, and so the data of arrays in them, are far below this.
constexpr std::uint64_t kMaxArrayBytes = std::uint64_t{1} << 48;

// Items of the working vectors whose memory is kept from one Reset to the next.
constexpr std::size_t kMostKept = std::size_t{1} << 18;

PickleValue IntValue(std::int64_t number) { return {.kind = PickleKind::kInt, .number = number}; }

PickleValue FloatValue(double number) { return {.kind = PickleKind::kFloat, .real = number}; }

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

}  // namespace

/// Runs the opcodes of one pickle. Every step returns whether it could.
class PickleReader::Machine {
 public:
  Machine(PickleReader& reader, std::span<const std::byte> pickle)
      : arena_(reader.arena_),
        stack_(reader.stack_),
        marks_(reader.marks_),
        memo_(reader.memo_),
        ints_(reader.ints_),
        at_(pickle.data()),
        end_(pickle.data() + pickle.size()) {
    stack_.clear();
    marks_.clear();
    memo_.clear();
  }

  std::optional<PickleValue> Run() {
    while (at_ != end_) {
      const auto opcode = static_cast<Opcode>(*at_++);
      if (opcode == kStop) {
        if (at_ != end_ || stack_.size() != 1 || !marks_.empty()) return std::nullopt;
        return stack_[0];
      }
      if (!Step(opcode)) return std::nullopt;
    }
    return std::nullopt;
  }

 private:
  bool Step(Opcode opcode) {
    switch (opcode) {
      case kMemoize:
        if (Available() == 0) return false;
        memo_.push_back(stack_.back());
        return true;
      case kBinGet:
        return Get<std::uint8_t>();
      case kLongBinGet:
        return Get<std::uint32_t>();
      case kBinPut:
        return Put<std::uint8_t>();
      case kLongBinPut:
        return Put<std::uint32_t>();
      case kMark:
        return Mark();
      case kBinInt:
        return Int<std::int32_t>();
      case kBinInt1:
        return Int<std::uint8_t>();
      case kBinInt2:
        return Int<std::uint16_t>();
      case kLong1:
        return Long();
      case kBinFloat:
        return Float();
      case kNone:
        return Push({});
      case kNewTrue:
      case kNewFalse:
        return Push({.kind = PickleKind::kBool, .number = opcode == kNewTrue ? 1 : 0});
      case kShortBinUnicode:
        return Bytes<std::uint8_t>(PickleKind::kText);
      case kBinUnicode:
        return Bytes<std::uint32_t>(PickleKind::kText);
      case kBinUnicode8:
        return Bytes<std::uint64_t>(PickleKind::kText);
      case kShortBinBytes:
        return Bytes<std::uint8_t>(PickleKind::kBytes);
      case kBinBytes:
        return Bytes<std::uint32_t>(PickleKind::kBytes);
      case kBinBytes8:
        return Bytes<std::uint64_t>(PickleKind::kBytes);
      case kByteArray8:
        return Bytes<std::uint64_t>(PickleKind::kByteArray);
      case kTuple1:
        return Tuple(1);
      case kTuple2:
        return Tuple(2);
      case kTuple3:
        return Tuple(3);
      case kEmptyTuple:
        return Tuple(0);
      case kTuple:
        return TupleFromMark();
      case kEmptyList:
        return Push({.kind = PickleKind::kList, .items = arena_.New(PickleSequence{})});
      case kEmptyDict:
        return Push({.kind = PickleKind::kDict, .items = arena_.New(PickleSequence{})});
      case kAppend:
        return AppendTo(PickleKind::kList, 1);
      case kAppends:
        return AppendFromMark(PickleKind::kList);
      case kSetItem:
        return AppendTo(PickleKind::kDict, 2);
      case kSetItems:
        return AppendFromMark(PickleKind::kDict);
      case kGlobal:
        return GlobalFromLines();
      case kStackGlobal:
        return GlobalFromStack();
      case kReduce:
        return Reduce();
      case kBuild:
        return Build();
      case kProto:
        return Protocol();
      case kFrame:
        return Frame();
      case kStop:
        break;
    }
    return false;
  }

  std::size_t Left() const { return static_cast<std::size_t>(end_ - at_); }

  /// How many values lie above the last mark.
  std::size_t Available() const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()); }

  bool Push(const PickleValue& value) {
    stack_.push_back(value);
    return true;
  }

  PickleValue Pop() {
    const PickleValue value = stack_.back();
    stack_.pop_back();
    return value;
  }

  template <typename T>
  std::optional<T> Take() {
    if (Left() < sizeof(T)) return std::nullopt;
    const T value = chunk::LoadAt<T>(at_);
    at_ += sizeof(T);
    return value;
  }

  // What surrounds the values.

  bool Protocol() {
    const auto protocol = Take<std::uint8_t>();
    return protocol && *protocol <= kHighestProtocol;
  }

  bool Frame() {
    const auto bytes = Take<std::uint64_t>();
    return bytes && *bytes <= Left();
  }

  template <typename T>
  bool Get() {
    const auto index = Take<T>();
    return index && *index < memo_.size() && Push(memo_[*index]);
  }

  /// Picklers number from 0 without gaps, which bounds the memo.
  template <typename T>
  bool Put() {
    const auto index = Take<T>();
    if (!index || *index > memo_.size() || Available() == 0) return false;
    if (*index == memo_.size()) memo_.emplace_back();
    memo_[*index] = stack_.back();
    return true;
  }

  // Numbers, text and bytes.

  template <typename T>
  bool Int() {
    const auto number = Take<T>();
    return number && Push(IntValue(*number));
  }

  bool Long() {
    const auto number = TakeLong(at_);
    return number && Push(IntValue(*number));
  }

  /// The integer of LONG1 whose length is at `from`, which is set behind it.
  std::optional<std::int64_t> TakeLong(const std::byte*& from) const {
    if (from == end_) return std::nullopt;
    const auto bytes = static_cast<std::size_t>(*from);
    if (bytes > sizeof(std::int64_t) || static_cast<std::size_t>(end_ - from) < 1 + bytes) {
      return std::nullopt;
    }
    std::uint64_t number = 0;
    std::memcpy(&number, from + 1, bytes);
    from += 1 + bytes;
    if (bytes == 0) return 0;
    const auto shift = static_cast<int>(64 - 8 * bytes);
    return static_cast<std::int64_t>(number << shift) >> shift;
  }

  bool Float() {
    const auto bits = Take<std::uint64_t>();
    return bits && Push(FloatValue(std::bit_cast<double>(__builtin_bswap64(*bits))));
  }

  template <typename T>
  bool Bytes(PickleKind kind) {
    const auto size = Take<T>();
    return size && PushBytes(kind, *size);
  }

  bool PushBytes(PickleKind kind, std::uint64_t size) {
    if (size > Left() || size > kMaxTextBytes) return false;
    const std::byte* const bytes = at_;
    at_ += size;
    return Push({.kind = kind, .size = static_cast<std::uint32_t>(size), .bytes = bytes});
  }

  // Lists, tuples and dicts.

  /// A mark, and at once what follows it if that is a run of numbers that fill a list or a tuple.
  bool Mark() {
    if (at_ == end_) return false;
    switch (static_cast<Opcode>(*at_)) {
      case kBinFloat:
        return FloatsFromMark();
      case kBinInt:
      case kBinInt1:
      case kBinInt2:
      case kLong1:
        return IntsFromMark();
      default:
        marks_.push_back(stack_.size());
        return true;
    }
  }

  bool FloatsFromMark() {
    const std::byte* next = at_;
    while (static_cast<std::size_t>(end_ - next) >= PickleRun::kFloatBytes &&
           static_cast<Opcode>(*next) == kBinFloat) {
      next += PickleRun::kFloatBytes;
    }
    PickleRun run{.form = PickleRun::Form::kFloats,
                  .size = static_cast<std::uint64_t>(next - at_) / PickleRun::kFloatBytes,
                  .floats = at_};
    at_ = next;
    if (FillWith(run)) return true;
    marks_.push_back(stack_.size());
    for (std::uint64_t i = 0; i < run.size; ++i) {
      Push(FloatValue(run.Float(i)));
    }
    return true;
  }

  bool IntsFromMark() {
    const std::size_t count = TakeInts();
    const std::span<const std::int64_t> ints(ints_.data(), count);
    if (EndsRun()) {
      PickleRun run{.form = PickleRun::Form::kInts, .size = count, .ints = arena_.Copy(ints)};
      if (FillWith(run)) return true;
    }
    marks_.push_back(stack_.size());
    for (const std::int64_t number : ints) Push(IntValue(number));
    return true;
  }

  /// Reads integers for as long as there are any, into `ints_`.
  std::size_t TakeInts() {
    std::size_t count = 0;
    for (;; ++count) {
      if (count == ints_.size()) ints_.resize(std::max<std::size_t>(1024, 2 * count));
      const std::size_t left = Left();
      if (left < 2) return count;
      const std::byte* const operand = at_ + 1;
      switch (static_cast<Opcode>(*at_)) {
        case kBinInt1:
          ints_[count] = static_cast<std::int64_t>(*operand);
          at_ += 2;
          break;
        case kBinInt2:
          if (left < 3) return count;
          ints_[count] = chunk::LoadAt<std::uint16_t>(operand);
          at_ += 3;
          break;
        case kBinInt:
          if (left < 5) return count;
          ints_[count] = chunk::LoadAt<std::int32_t>(operand);
          at_ += 5;
          break;
        case kLong1: {
          const std::byte* next = operand;
          const auto number = TakeLong(next);
          if (!number) return count;
          ints_[count] = *number;
          at_ = next;
          break;
        }
        default:
          return count;
      }
    }
  }

  /// Whether a run of numbers up to here is all that its mark was for.
  bool EndsRun() const {
    return at_ != end_ &&
           (static_cast<Opcode>(*at_) == kAppends || static_cast<Opcode>(*at_) == kTuple);
  }

  /// Does what the next opcode says to a run of numbers; false, and nothing, if that is not to
  /// make a tuple of them or to append them to a list.
  bool FillWith(const PickleRun& run) {
    if (at_ == end_ || run.size == 0) return false;
    const auto opcode = static_cast<Opcode>(*at_);
    if (opcode == kTuple) {
      ++at_;
      return PushTuple(run);
    }
    if (opcode != kAppends || Available() == 0 || stack_.back().kind != PickleKind::kList) {
      return false;
    }
    ++at_;
    AppendRun(*stack_.back().items, run);
    return true;
  }

  /// The last `count` values as a run; takes them from the stack.
  PickleRun TakeRun(std::size_t count) {
    const std::span<const PickleValue> values = std::span(stack_).last(count);
    PickleRun run{.size = count, .values = arena_.Copy(values)};
    stack_.resize(stack_.size() - count);
    return run;
  }

  bool PushTuple(const PickleRun& run) {
    auto* const items = arena_.New(PickleSequence{.size = run.size, .first = run});
    return Push({.kind = PickleKind::kTuple, .items = items});
  }

  bool Tuple(std::size_t count) { return Available() >= count && PushTuple(TakeRun(count)); }

  bool TupleFromMark() {
    if (marks_.empty()) return false;
    const std::size_t count = Available();
    marks_.pop_back();
    return PushTuple(TakeRun(count));
  }

  bool AppendFromMark(PickleKind kind) {
    if (marks_.empty()) return false;
    const std::size_t count = Available();
    marks_.pop_back();
    return AppendTo(kind, count);
  }

  /// Appends the last `count` values to the list or dict under them.
  bool AppendTo(PickleKind kind, std::size_t count) {
    if (Available() <= count || (kind == PickleKind::kDict && count % 2 != 0)) return false;
    const PickleValue& target = stack_[stack_.size() - count - 1];
    if (target.kind != kind) return false;
    PickleSequence& items = *target.items;
    if (count != 0) AppendRun(items, TakeRun(count));
    return true;
  }

  void AppendRun(PickleSequence& items, const PickleRun& run) {
    if (items.size == 0) {
      items.first = run;
    } else {
      PickleRun* const added = arena_.New(run);
      (items.last == nullptr ? items.first.next : items.last->next) = added;
      items.last = added;
    }
    items.size += run.size;
  }

  // Objects of the few known types.

  bool GlobalFromLines() {
    const auto module = TakeLine();
    const auto name = TakeLine();
    return module && name && PushGlobal(*module, *name);
  }

  std::optional<std::string_view> TakeLine() {
    const void* const end = Left() == 0 ? nullptr : std::memchr(at_, '\n', Left());
    if (end == nullptr) return std::nullopt;
    const auto bytes = static_cast<std::size_t>(static_cast<const std::byte*>(end) - at_);
    const std::string_view line(reinterpret_cast<const char*>(at_), bytes);
    at_ += bytes + 1;
    return line;
  }

  bool GlobalFromStack() {
    if (Available() < 2) return false;
    const PickleValue name = Pop();
    const PickleValue module = Pop();
    return module.kind == PickleKind::kText && name.kind == PickleKind::kText &&
           PushGlobal(module.text(), name.text());
  }

  bool PushGlobal(std::string_view module, std::string_view name) {
    for (const GlobalName& known : kGlobals) {
      if (known.module == module && known.name == name) {
        return Push(
            {.kind = PickleKind::kGlobal, .number = static_cast<std::int64_t>(known.global)});
      }
    }
    return false;
  }

  bool Reduce() {
    if (Available() < 2) return false;
    const PickleValue arguments = Pop();
    const PickleValue callable = Pop();
    if (callable.kind != PickleKind::kGlobal) return false;
    switch (static_cast<Global>(callable.number)) {
      case Global::kDType:
        return MakeDType(TupleOf(arguments, 3));
      case Global::kFromBuffer:
        return MakeArray(TupleOf(arguments, 4));
      case Global::kReconstructArray:
        return MakeUnfilledArray(TupleOf(arguments, 3));
      case Global::kScalar:
        return MakeScalar(TupleOf(arguments, 2));
      case Global::kCreateRow:
        return MakeRow(TupleOf(arguments, 2));
      case Global::kReconstruct:
        return MakeRowWithoutNames(TupleOf(arguments, 3));
      case Global::kNdarray:
      case Global::kRow:
      case Global::kTuple:
        break;
    }
    return false;
  }

  bool Build() {
    if (Available() < 2) return false;
    const PickleValue state = Pop();
    const PickleValue& object = stack_.back();
    if (object.kind == PickleKind::kNumpyDType) return IsPlain(object.dtype, state);
    return object.kind == PickleKind::kNumpyArray && FillArray(*object.array, TupleOf(state, 5));
  }

  /// numpy.dtype(text, align=False, copy=...)
  bool MakeDType(const PickleValue* arguments) {
    if (arguments == nullptr || arguments[0].kind != PickleKind::kText) return false;
    const bool plain = arguments[1].kind == PickleKind::kBool && arguments[1].number == 0 &&
                       arguments[2].kind == PickleKind::kBool;
    for (const auto& [text, dtype] : kDTypes) {
      if (plain && arguments[0].text() == text) {
        return Push({.kind = PickleKind::kNumpyDType, .dtype = dtype, .number = 0});
      }
    }
    return false;
  }

  /// Whether the state of a dtype says nothing but that it is little-endian.
  static bool IsPlain(chunk::DType dtype, const PickleValue& state) {
    const PickleValue* const parts = TupleOf(state, 8);
    return parts != nullptr && IsInt(parts[0], 3) &&
           IsText(parts[1], chunk::DTypeBytes(dtype) == 1 ? "|" : "<") &&
           parts[2].kind == PickleKind::kNone && parts[3].kind == PickleKind::kNone &&
           parts[4].kind == PickleKind::kNone && IsInt(parts[5], -1) && IsInt(parts[6], -1) &&
           IsInt(parts[7], 0);
  }

  /// _frombuffer(buffer, dtype, shape, order). Of other buffers than bytearrays it could not be
  /// written to, and isn't a column then.
  bool MakeArray(const PickleValue* arguments) {
    if (arguments == nullptr || arguments[0].kind != PickleKind::kByteArray ||
        arguments[1].kind != PickleKind::kNumpyDType || !IsText(arguments[3], "C")) {
      return false;
    }
    PickleArray array;
    if (!Describe(array, arguments[1].dtype, arguments[2], arguments[0])) return false;
    return Push({.kind = PickleKind::kNumpyArray, .array = arena_.New(array)});
  }

  /// _reconstruct(numpy.ndarray, (0,), b"b"), which only takes its meaning from BUILD.
  bool MakeUnfilledArray(const PickleValue* arguments) {
    if (arguments == nullptr || !Is(arguments[0], Global::kNdarray)) return false;
    const PickleValue* const shape = TupleOf(arguments[1], 1);
    if (shape == nullptr || !IsInt(shape[0], 0) || arguments[2].kind != PickleKind::kBytes ||
        arguments[2].text() != "b") {
      return false;
    }
    return Push({.kind = PickleKind::kNumpyArray, .array = arena_.New(PickleArray{})});
  }

  /// (version, shape, dtype, is Fortran order, data)
  bool FillArray(PickleArray& array, const PickleValue* state) {
    return array.dtype == chunk::DType::kNone && state != nullptr && IsInt(state[0], 1) &&
           state[2].kind == PickleKind::kNumpyDType && state[3].kind == PickleKind::kBool &&
           state[3].number == 0 && state[4].kind == PickleKind::kBytes &&
           Describe(array, state[2].dtype, state[1], state[4]);
  }

  bool Describe(PickleArray& array, chunk::DType dtype, const PickleValue& shape,
                const PickleValue& data) {
    if (shape.kind != PickleKind::kTuple || shape.items->size > chunk::kMaxTensorRank) return false;
    const PickleRun& run = shape.items->first;
    auto* const dimensions = arena_.Allocate<std::uint64_t>(run.size);
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

  /// scalar(dtype, bytes)
  bool MakeScalar(const PickleValue* arguments) {
    if (arguments == nullptr || arguments[0].kind != PickleKind::kNumpyDType ||
        arguments[1].kind != PickleKind::kBytes ||
        arguments[1].size != chunk::DTypeBytes(arguments[0].dtype)) {
      return false;
    }
    return Push({.kind = PickleKind::kNumpyScalar,
                 .dtype = arguments[0].dtype,
                 .size = arguments[1].size,
                 .bytes = arguments[1].bytes});
  }

  /// _create_row(names, values)
  bool MakeRow(const PickleValue* arguments) {
    if (arguments == nullptr || arguments[1].kind != PickleKind::kTuple) return false;
    const PickleValue& fields = arguments[0];
    const bool named =
        fields.kind == PickleKind::kList ||
        (fields.kind == PickleKind::kSparkRow && fields.row->fields.kind == PickleKind::kNone);
    return named && PushRow({.fields = fields, .values = arguments[1].items});
  }

  /// _reconstructor(Row, tuple, values): what Row("a", "b") is, whose calls make Rows.
  bool MakeRowWithoutNames(const PickleValue* arguments) {
    return arguments != nullptr && Is(arguments[0], Global::kRow) &&
           Is(arguments[1], Global::kTuple) && arguments[2].kind == PickleKind::kTuple &&
           PushRow({.fields = {}, .values = arguments[2].items});
  }

  bool PushRow(const PickleRow& row) {
    return Push({.kind = PickleKind::kSparkRow, .row = arena_.New(row)});
  }

  Arena& arena_;
  std::vector<PickleValue>& stack_;
  std::vector<std::size_t>& marks_;
  std::vector<PickleValue>& memo_;
  std::vector<std::int64_t>& ints_;
  const std::byte* at_;
  const std::byte* const end_;
};

std::optional<PickleValue> PickleReader::Read(std::span<const std::byte> pickle) {
  return Machine(*this, pickle).Run();
}

const PickleValue* PickleReader::Values(PickleSequence& items) {
  PickleRun& run = items.first;
  if (run.next != nullptr) return nullptr;
  if (run.form == PickleRun::Form::kValues) return run.values;
  auto* const values = arena_.Allocate<PickleValue>(run.size);
  for (std::uint64_t i = 0; i < run.size; ++i) {
    values[i] =
        run.form == PickleRun::Form::kInts ? IntValue(run.ints[i]) : FloatValue(run.Float(i));
  }
  run.form = PickleRun::Form::kValues;
  run.values = values;
  return values;
}

void PickleReader::Reset() {
  arena_.Reset();
  const auto shrink = [](auto& kept) {
    kept.clear();
    if (kept.capacity() > kMostKept) kept.shrink_to_fit();
  };
  shrink(stack_);
  shrink(marks_);
  shrink(memo_);
  shrink(ints_);
}

}  // namespace tfos::columns
