#include "columns/pickle/pickle_reader.h"

#include <algorithm>
#include <bit>

#include "base/memory/unaligned.h"
#include "columns/pickle/opcodes.h"
#include "columns/pickle/pickle_input.h"
#include "columns/pickle/pickle_objects.h"

namespace tfos::columns {
namespace {

constexpr std::uint64_t kMaxTextBytes = 0xFFFFFFFF;

// Items of the working vectors whose memory is kept from one Reset to the next.
constexpr std::size_t kMostKept = std::size_t{1} << 18;

PickleValue IntValue(std::int64_t number) { return {.kind = PickleKind::kInt, .number = number}; }

PickleValue FloatValue(double number) { return {.kind = PickleKind::kFloat, .real = number}; }

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
        input_(pickle) {
    stack_.clear();
    marks_.clear();
    memo_.clear();
  }

  std::optional<PickleValue> Run() {
    while (const auto byte = input_.Take<std::uint8_t>()) {
      const auto opcode = static_cast<Opcode>(*byte);
      if (opcode == kStop) {
        if (input_.left() != 0 || stack_.size() != 1 || !marks_.empty()) return std::nullopt;
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

  // What surrounds the values.

  bool Protocol() {
    const auto protocol = input_.Take<std::uint8_t>();
    return protocol && *protocol <= kHighestProtocol;
  }

  bool Frame() {
    const auto bytes = input_.Take<std::uint64_t>();
    return bytes && *bytes <= input_.left();
  }

  template <typename T>
  bool Get() {
    const auto index = input_.Take<T>();
    return index && *index < memo_.size() && Push(memo_[*index]);
  }

  /// Picklers number from 0 without gaps, which bounds the memo.
  template <typename T>
  bool Put() {
    const auto index = input_.Take<T>();
    if (!index || *index > memo_.size() || Available() == 0) return false;
    if (*index == memo_.size()) memo_.emplace_back();
    memo_[*index] = stack_.back();
    return true;
  }

  // Numbers, text and bytes.

  template <typename T>
  bool Int() {
    const auto number = input_.Take<T>();
    return number && Push(IntValue(*number));
  }

  bool Long() {
    const auto number = input_.TakeLong();
    return number && Push(IntValue(*number));
  }

  bool Float() {
    const auto bits = input_.Take<std::uint64_t>();
    return bits && Push(FloatValue(std::bit_cast<double>(__builtin_bswap64(*bits))));
  }

  template <typename T>
  bool Bytes(PickleKind kind) {
    const auto size = input_.Take<T>();
    return size && PushBytes(kind, *size);
  }

  bool PushBytes(PickleKind kind, std::uint64_t size) {
    if (size > input_.left() || size > kMaxTextBytes) return false;
    const std::byte* const bytes = input_.at();
    input_.Skip(size);
    return Push({.kind = kind, .size = static_cast<std::uint32_t>(size), .bytes = bytes});
  }

  // Lists, tuples and dicts.

  /// A mark, and at once what follows it if that is a run of numbers that fill a list or a tuple.
  bool Mark() {
    if (input_.left() == 0) return false;
    switch (static_cast<Opcode>(*input_.at())) {
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
    const std::byte* const floats = input_.at();
    const PickleRun run{
        .form = PickleRun::Form::kFloats, .size = input_.SkipFloats(), .floats = floats};
    if (FillWith(run)) return true;
    marks_.push_back(stack_.size());
    for (std::uint64_t i = 0; i < run.size; ++i) {
      Push(FloatValue(run.Float(i)));
    }
    return true;
  }

  bool IntsFromMark() {
    const std::size_t count = input_.TakeInts(ints_);
    const std::span<const std::int64_t> ints(ints_.data(), count);
    // Else they are only a part of what their mark is for.
    if (input_.Follows(kAppends) || input_.Follows(kTuple)) {
      PickleRun run{.form = PickleRun::Form::kInts, .size = count, .ints = arena_.Copy(ints)};
      if (FillWith(run)) return true;
    }
    marks_.push_back(stack_.size());
    for (const std::int64_t number : ints) Push(IntValue(number));
    return true;
  }

  /// Does what the next opcode says to a run of numbers; false, and nothing, if that is not to
  /// make a tuple of them or to append them to a list.
  bool FillWith(const PickleRun& run) {
    if (run.size == 0) return false;
    if (input_.Follows(kTuple)) {
      input_.Skip(1);
      return PushTuple(run);
    }
    if (!input_.Follows(kAppends) || Available() == 0 || stack_.back().kind != PickleKind::kList) {
      return false;
    }
    input_.Skip(1);
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
    const auto module = input_.TakeLine();
    const auto name = input_.TakeLine();
    return module && name && PushGlobal(*module, *name);
  }

  bool GlobalFromStack() {
    if (Available() < 2) return false;
    const PickleValue name = Pop();
    const PickleValue module = Pop();
    return module.kind == PickleKind::kText && name.kind == PickleKind::kText &&
           PushGlobal(module.text(), name.text());
  }

  bool PushGlobal(std::string_view module, std::string_view name) {
    const auto global = FindGlobal(module, name);
    return global && Push(*global);
  }

  bool Reduce() {
    if (Available() < 2) return false;
    const PickleValue arguments = Pop();
    const PickleValue callable = Pop();
    const auto made = CallGlobal(arena_, callable, arguments);
    return made && Push(*made);
  }

  bool Build() {
    if (Available() < 2) return false;
    const PickleValue state = Pop();
    return SetState(arena_, stack_.back(), state);
  }

  Arena& arena_;
  std::vector<PickleValue>& stack_;
  std::vector<std::size_t>& marks_;
  std::vector<PickleValue>& memo_;
  std::vector<std::int64_t>& ints_;
  PickleInput input_;
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
