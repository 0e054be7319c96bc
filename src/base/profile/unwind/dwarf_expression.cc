#include "base/profile/unwind/dwarf_expression.h"

#include <array>
#include <utility>
#include <vector>

namespace tfos {
namespace {

constexpr std::size_t kMostSteps = 1000;  // It may go round in circles.
constexpr std::size_t kMostValues = 64;

// DW_OP_..., DWARF 5, table 7.9.
enum Operation : std::uint8_t {
  kAddress = 0x03,
  kDereference = 0x06,
  kConst1u = 0x08,
  kConst1s = 0x09,
  kConst2u = 0x0a,
  kConst2s = 0x0b,
  kConst4u = 0x0c,
  kConst4s = 0x0d,
  kConst8u = 0x0e,
  kConst8s = 0x0f,
  kConstUleb = 0x10,
  kConstSleb = 0x11,
  kDuplicate = 0x12,
  kDrop = 0x13,
  kOver = 0x14,
  kPick = 0x15,
  kSwap = 0x16,
  kRotate = 0x17,
  kAbsolute = 0x19,
  kAnd = 0x1a,
  kDivide = 0x1b,
  kMinus = 0x1c,
  kModulo = 0x1d,
  kMultiply = 0x1e,
  kNegate = 0x1f,
  kNot = 0x20,
  kOr = 0x21,
  kPlus = 0x22,
  kPlusUleb = 0x23,
  kShiftLeft = 0x24,
  kShiftRight = 0x25,
  kShiftRightSigned = 0x26,
  kXor = 0x27,
  kBranch = 0x28,
  kEqual = 0x29,
  kGreaterOrEqual = 0x2a,
  kGreater = 0x2b,
  kLessOrEqual = 0x2c,
  kLess = 0x2d,
  kNotEqual = 0x2e,
  kSkip = 0x2f,
  kLiteral0 = 0x30,
  kLiteral31 = 0x4f,
  kRegister0 = 0x70,
  kRegister31 = 0x8f,
  kRegisterUleb = 0x92,
  kDereferenceSize = 0x94,
  kNothing = 0x96,
};

class Machine {
 public:
  Machine(const Registers& registers, const ProcessMemory& memory)
      : registers_(registers), memory_(memory) {}

  void Push(std::uint64_t value) {
    if (values_.size() >= kMostValues) ok_ = false;
    if (ok_) values_.push_back(value);
  }
  std::uint64_t Pop() {
    if (values_.empty()) ok_ = false;
    if (!ok_) return 0;
    const std::uint64_t value = values_.back();
    values_.pop_back();
    return value;
  }
  bool ok() const { return ok_; }

  void Do(std::uint8_t operation, DwarfReader& reader);

 private:
  bool PushConstant(std::uint8_t operation, DwarfReader& reader);
  bool Arrange(std::uint8_t operation, DwarfReader& reader);
  bool ComputeOfOne(std::uint8_t operation, DwarfReader& reader);
  bool ComputeOfTwo(std::uint8_t operation);

  /// The one that was pushed so many before the last.
  std::uint64_t Earlier(std::uint64_t back) {
    if (back >= values_.size()) ok_ = false;
    return ok_ ? values_[values_.size() - 1 - static_cast<std::size_t>(back)] : 0;
  }
  void PushRegister(std::uint64_t number, std::int64_t offset) {
    if (number >= Registers::kCount) ok_ = false;
    if (ok_) Push(registers_.values[number] + static_cast<std::uint64_t>(offset));
  }
  void PushMemory(std::uint64_t address, std::size_t size) {
    std::array<std::byte, 8> bytes{};
    if (size > bytes.size() || !memory_.Read(address, std::span(bytes).first(size))) ok_ = false;
    if (ok_) Push(DwarfReader(bytes).Unsigned(8));
  }

  const Registers& registers_;
  const ProcessMemory& memory_;
  std::vector<std::uint64_t> values_;
  bool ok_ = true;
};

bool Machine::PushConstant(std::uint8_t operation, DwarfReader& reader) {
  if (operation >= kLiteral0 && operation <= kLiteral31) {
    Push(operation - std::uint64_t{kLiteral0});
    return true;
  }
  if (operation >= kRegister0 && operation <= kRegister31) {
    PushRegister(operation - std::uint64_t{kRegister0}, reader.Sleb());
    return true;
  }
  switch (operation) {
    case kAddress:
      Push(reader.Unsigned(8));
      return true;
    case kConst1u:
    case kConst2u:
    case kConst4u:
    case kConst8u:
      Push(reader.Unsigned(std::size_t{1} << ((operation - kConst1u) / 2)));
      return true;
    case kConst1s:
    case kConst2s:
    case kConst4s:
    case kConst8s:
      Push(static_cast<std::uint64_t>(
          reader.Signed(std::size_t{1} << ((operation - kConst1s) / 2))));
      return true;
    case kConstUleb:
      Push(reader.Uleb());
      return true;
    case kConstSleb:
      Push(static_cast<std::uint64_t>(reader.Sleb()));
      return true;
    case kRegisterUleb: {
      const std::uint64_t number = reader.Uleb();
      PushRegister(number, reader.Sleb());
      return true;
    }
    default:
      return false;
  }
}

bool Machine::Arrange(std::uint8_t operation, DwarfReader& reader) {
  switch (operation) {
    case kNothing:
      return true;
    case kDuplicate:
      Push(Earlier(0));
      return true;
    case kDrop:
      Pop();
      return true;
    case kOver:
      Push(Earlier(1));
      return true;
    case kPick:
      Push(Earlier(reader.Unsigned(1)));
      return true;
    case kSwap: {
      const std::uint64_t last = Pop();
      const std::uint64_t second = Pop();
      Push(last);
      Push(second);
      return true;
    }
    case kRotate: {
      const std::uint64_t last = Pop();
      const std::uint64_t second = Pop();
      const std::uint64_t third = Pop();
      Push(last);
      Push(third);
      Push(second);
      return true;
    }
    case kSkip:
      reader.Skip(reader.Signed(2));
      return true;
    case kBranch: {
      const std::int64_t by = reader.Signed(2);
      if (Pop() != 0) reader.Skip(by);
      return true;
    }
    default:
      return false;
  }
}

bool Machine::ComputeOfOne(std::uint8_t operation, DwarfReader& reader) {
  switch (operation) {
    case kDereference:
      PushMemory(Pop(), 8);
      return true;
    case kDereferenceSize: {
      const std::uint64_t size = reader.Unsigned(1);
      PushMemory(Pop(), static_cast<std::size_t>(size));
      return true;
    }
    case kAbsolute: {
      const std::uint64_t value = Pop();
      Push(static_cast<std::int64_t>(value) < 0 ? 0 - value : value);
      return true;
    }
    case kNegate:
      Push(0 - Pop());
      return true;
    case kNot:
      Push(~Pop());
      return true;
    case kPlusUleb:
      Push(Pop() + reader.Uleb());
      return true;
    default:
      return false;
  }
}

/// By bits, with all of them gone from 64 on.
std::uint64_t ShiftLeft(std::uint64_t value, std::uint64_t by) { return by < 64 ? value << by : 0; }
std::uint64_t ShiftRight(std::uint64_t value, std::uint64_t by) {
  return by < 64 ? value >> by : 0;
}

bool Machine::ComputeOfTwo(std::uint8_t operation) {
  if (operation < kAnd || operation > kNotEqual) return false;
  const std::uint64_t right = Pop();
  const std::uint64_t left = Pop();
  const auto signed_right = static_cast<std::int64_t>(right);
  const auto signed_left = static_cast<std::int64_t>(left);
  switch (operation) {
    case kAnd:
      Push(left & right);
      return true;
    case kDivide:
      // The smallest number has no opposite.
      if (right == 0) ok_ = false;
      if (ok_)
        Push(signed_right == -1 ? 0 - left
                                : static_cast<std::uint64_t>(signed_left / signed_right));
      return true;
    case kModulo:
      if (right == 0) ok_ = false;
      if (ok_) Push(left % right);
      return true;
    case kMinus:
      Push(left - right);
      return true;
    case kMultiply:
      Push(left * right);
      return true;
    case kOr:
      Push(left | right);
      return true;
    case kPlus:
      Push(left + right);
      return true;
    case kShiftLeft:
      Push(ShiftLeft(left, right));
      return true;
    case kShiftRight:
      Push(ShiftRight(left, right));
      return true;
    case kShiftRightSigned:
      Push(static_cast<std::uint64_t>(signed_left >> (right < 64 ? right : 63)));
      return true;
    case kXor:
      Push(left ^ right);
      return true;
    case kEqual:
      Push(left == right ? 1 : 0);
      return true;
    case kGreaterOrEqual:
      Push(signed_left >= signed_right ? 1 : 0);
      return true;
    case kGreater:
      Push(signed_left > signed_right ? 1 : 0);
      return true;
    case kLessOrEqual:
      Push(signed_left <= signed_right ? 1 : 0);
      return true;
    case kLess:
      Push(signed_left < signed_right ? 1 : 0);
      return true;
    case kNotEqual:
      Push(left != right ? 1 : 0);
      return true;
    default:
      return false;
  }
}

void Machine::Do(std::uint8_t operation, DwarfReader& reader) {
  if (!PushConstant(operation, reader) && !Arrange(operation, reader) &&
      !ComputeOfOne(operation, reader) && !ComputeOfTwo(operation)) {
    ok_ = false;
  }
}

}  // namespace

std::optional<std::uint64_t> EvaluateExpression(std::span<const std::byte> expression,
                                                const Registers& registers,
                                                const ProcessMemory& memory,
                                                std::optional<std::uint64_t> first) {
  Machine machine(registers, memory);
  if (first.has_value()) machine.Push(*first);
  DwarfReader reader(expression);
  for (std::size_t steps = 0; !reader.at_end(); ++steps) {
    machine.Do(static_cast<std::uint8_t>(reader.Unsigned(1)), reader);
    if (!machine.ok() || !reader.ok() || steps > kMostSteps) return std::nullopt;
  }
  const std::uint64_t value = machine.Pop();
  if (!machine.ok() || !reader.ok()) return std::nullopt;
  return value;
}

}  // namespace tfos
