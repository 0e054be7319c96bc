#include "base/profile/unwind/cfa_program.h"

#include <utility>
#include <vector>

#include "base/profile/unwind/dwarf_reader.h"

namespace tfos {
namespace {

using Kind = RegisterRule::Kind;

/// Rows that a program puts aside at a time; compilers need one or two.
constexpr std::size_t kMostKept = 32;

// DW_CFA_..., DWARF 5, table 7.29. The first three have their operand in the low 6 bits.
enum Instruction : std::uint8_t {
  kAdvance = 0x40,
  kOffset = 0x80,
  kRestore = 0xc0,
  kNothing = 0x00,
  kSetPlace = 0x01,
  kAdvance1 = 0x02,
  kAdvance2 = 0x03,
  kAdvance4 = 0x04,
  kOffsetExtended = 0x05,
  kRestoreExtended = 0x06,
  kUndefined = 0x07,
  kSameValue = 0x08,
  kRegister = 0x09,
  kKeepRow = 0x0a,
  kTakeRow = 0x0b,
  kBase = 0x0c,
  kBaseRegister = 0x0d,
  kBaseOffset = 0x0e,
  kBaseExpression = 0x0f,
  kExpression = 0x10,
  kOffsetExtendedSigned = 0x11,
  kBaseSigned = 0x12,
  kBaseOffsetSigned = 0x13,
  kValueOffset = 0x14,
  kValueOffsetSigned = 0x15,
  kValueExpression = 0x16,
  kGnuWindowSave = 0x2d,  // On ARM: the return address is signed from here on, or not any more.
  kGnuArgumentsSize = 0x2e,
  kGnuNegativeOffset = 0x2f,
};

class Program {
 public:
  explicit Program(const FrameDescription& frame) : frame_(frame), place_(frame.begin) {}

  /// The row so far is what `restore` goes back to.
  void EndCommon() { initial_ = row_; }

  /// False: it makes no sense. It ends where it comes to code after `pc`.
  bool Run(std::span<const std::byte> program, std::uint64_t address, std::uint64_t pc) {
    DwarfReader reader(program, address);
    while (!reader.at_end()) {
      if (!Do(static_cast<std::uint8_t>(reader.Unsigned(1)), reader) || !reader.ok()) return false;
      if (place_ > pc) return true;
    }
    return true;
  }

  const FrameRow& row() const { return row_; }

 private:
  bool Do(std::uint8_t instruction, DwarfReader& reader);
  bool DoPlace(std::uint8_t instruction, DwarfReader& reader);
  bool DoBase(std::uint8_t instruction, DwarfReader& reader);
  bool DoRegister(std::uint8_t instruction, DwarfReader& reader);

  std::int64_t Scaled(std::uint64_t factor) const {
    return static_cast<std::int64_t>(factor * static_cast<std::uint64_t>(frame_.data_step));
  }
  std::int64_t Scaled(std::int64_t factor) const {
    return Scaled(static_cast<std::uint64_t>(factor));
  }
  /// Registers that hold no addresses, such as those of vectors, are not followed.
  void Set(std::uint64_t number, const RegisterRule& rule) {
    if (number < row_.registers.size()) row_.registers[static_cast<std::size_t>(number)] = rule;
  }
  void Restore(std::uint64_t number) {
    if (number < row_.registers.size()) {
      Set(number, initial_.registers[static_cast<std::size_t>(number)]);
    }
  }
  static std::span<const std::byte> Expression(DwarfReader& reader) {
    return reader.Block(reader.Uleb());
  }

  const FrameDescription& frame_;
  std::uint64_t place_;
  FrameRow row_;
  FrameRow initial_;
  std::vector<FrameRow> kept_;
};

bool Program::DoPlace(std::uint8_t instruction, DwarfReader& reader) {
  switch (instruction) {
    case kSetPlace:
      place_ = reader.Pointer(frame_.encoding);
      return true;
    case kAdvance1:
      place_ += reader.Unsigned(1) * frame_.code_step;
      return true;
    case kAdvance2:
      place_ += reader.Unsigned(2) * frame_.code_step;
      return true;
    case kAdvance4:
      place_ += reader.Unsigned(4) * frame_.code_step;
      return true;
    default:
      return false;
  }
}

bool Program::DoBase(std::uint8_t instruction, DwarfReader& reader) {
  switch (instruction) {
    case kBase:
      row_.base_register = reader.Uleb();
      row_.base_offset = static_cast<std::int64_t>(reader.Uleb());
      row_.base_expression = {};
      return true;
    case kBaseSigned:
      row_.base_register = reader.Uleb();
      row_.base_offset = Scaled(reader.Sleb());
      row_.base_expression = {};
      return true;
    case kBaseRegister:
      row_.base_register = reader.Uleb();
      return row_.base_expression.empty();
    case kBaseOffset:
      row_.base_offset = static_cast<std::int64_t>(reader.Uleb());
      return row_.base_expression.empty();
    case kBaseOffsetSigned:
      row_.base_offset = Scaled(reader.Sleb());
      return row_.base_expression.empty();
    case kBaseExpression:
      row_.base_expression = Expression(reader);
      return !row_.base_expression.empty();
    default:
      return false;
  }
}

bool Program::DoRegister(std::uint8_t instruction, DwarfReader& reader) {
  const std::uint64_t number = reader.Uleb();
  switch (instruction) {
    case kOffsetExtended:
      Set(number, {.kind = Kind::kAt, .number = Scaled(reader.Uleb())});
      return true;
    case kOffsetExtendedSigned:
      Set(number, {.kind = Kind::kAt, .number = Scaled(reader.Sleb())});
      return true;
    case kGnuNegativeOffset:
      Set(number, {.kind = Kind::kAt, .number = Scaled(0 - reader.Uleb())});
      return true;
    case kValueOffset:
      Set(number, {.kind = Kind::kIs, .number = Scaled(reader.Uleb())});
      return true;
    case kValueOffsetSigned:
      Set(number, {.kind = Kind::kIs, .number = Scaled(reader.Sleb())});
      return true;
    case kRestoreExtended:
      Restore(number);
      return true;
    case kUndefined:
      Set(number, {.kind = Kind::kUndefined});
      return true;
    case kSameValue:
      Set(number, {.kind = Kind::kSame});
      return true;
    case kRegister:
      Set(number, {.kind = Kind::kRegister, .number = static_cast<std::int64_t>(reader.Uleb())});
      return true;
    case kExpression:
      Set(number, {.kind = Kind::kAtComputed, .expression = Expression(reader)});
      return true;
    case kValueExpression:
      Set(number, {.kind = Kind::kComputed, .expression = Expression(reader)});
      return true;
    default:
      return false;
  }
}

bool Program::Do(std::uint8_t instruction, DwarfReader& reader) {
  const std::uint64_t operand = instruction & 0x3fU;
  switch (instruction & 0xc0U) {
    case kAdvance:
      place_ += operand * frame_.code_step;
      return true;
    case kOffset:
      Set(operand, {.kind = Kind::kAt, .number = Scaled(reader.Uleb())});
      return true;
    case kRestore:
      Restore(operand);
      return true;
    default:
      break;
  }
  switch (instruction) {
    case kNothing:
      return true;
    case kGnuArgumentsSize:
      reader.Uleb();
      return true;
    case kGnuWindowSave:
      row_.return_is_signed = !row_.return_is_signed;
      return true;
    case kKeepRow:
      if (kept_.size() >= kMostKept) return false;
      kept_.push_back(row_);
      return true;
    case kTakeRow:
      if (kept_.empty()) return false;
      row_ = kept_.back();
      kept_.pop_back();
      return true;
    default:
      return DoPlace(instruction, reader) || DoBase(instruction, reader) ||
             DoRegister(instruction, reader);
  }
}

}  // namespace

std::optional<FrameRow> RowAt(const FrameDescription& frame, std::uint64_t pc) {
  Program program(frame);
  if (!program.Run(frame.common_program(), 0, pc)) return std::nullopt;
  program.EndCommon();
  if (!program.Run(frame.own_program(), frame.own_address + frame.own_at, pc)) {
    return std::nullopt;
  }
  return program.row();
}

}  // namespace tfos
