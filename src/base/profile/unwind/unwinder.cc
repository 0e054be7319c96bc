#include "base/profile/unwind/unwinder.h"

#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/profile/unwind/dwarf_expression.h"

namespace tfos {
namespace {

/// Far more than any file has.
constexpr std::size_t kMostSegments = 256;

/// The word at `address` of the copied stack.
std::optional<std::uint64_t> Word(const ThreadCopy& thread, std::uint64_t address) {
  std::array<std::byte, 8> bytes{};
  if (!thread.Read(address, bytes)) return std::nullopt;
  return DwarfReader(bytes).Unsigned(8);
}

/// The caller's value of one register. nullopt: it is gone, or was never copied.
std::optional<std::uint64_t> CallersValue(const RegisterRule& rule, std::size_t number,
                                          std::uint64_t base, const Registers& registers,
                                          const ThreadCopy& thread) {
  using Kind = RegisterRule::Kind;
  switch (rule.kind) {
    case Kind::kSame:
      return registers.values[number];
    case Kind::kUndefined:
      return std::nullopt;
    case Kind::kAt:
      return Word(thread, base + static_cast<std::uint64_t>(rule.number));
    case Kind::kIs:
      return base + static_cast<std::uint64_t>(rule.number);
    case Kind::kRegister:
      if (static_cast<std::uint64_t>(rule.number) >= Registers::kCount) return std::nullopt;
      return registers.values[static_cast<std::size_t>(rule.number)];
    case Kind::kAtComputed: {
      const auto address = EvaluateExpression(rule.expression, registers, thread, base);
      return address.has_value() ? Word(thread, *address) : std::nullopt;
    }
    case Kind::kComputed:
      return EvaluateExpression(rule.expression, registers, thread, base);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> BaseOf(const FrameRow& row, const Registers& registers,
                                    const ThreadCopy& thread) {
  if (!row.base_expression.empty()) {
    return EvaluateExpression(row.base_expression, registers, thread, std::nullopt);
  }
  if (row.base_register >= Registers::kCount) return std::nullopt;
  return registers.values[static_cast<std::size_t>(row.base_register)] +
         static_cast<std::uint64_t>(row.base_offset);
}

/// The caller's registers; nullopt: they can't be known.
std::optional<Registers> CallersRegisters(const FrameDescription& frame, const FrameRow& row,
                                          const Registers& registers, const ThreadCopy& thread) {
  const std::optional<std::uint64_t> base = BaseOf(row, registers, thread);
  if (!base.has_value() || frame.return_register >= Registers::kCount) return std::nullopt;
  Registers caller;
  for (std::size_t i = 0; i < Registers::kCount; ++i) {
    const RegisterRule& rule = row.registers[i];
    // The stack pointer is the frame's address where nothing else is said.
    const std::optional<std::uint64_t> value =
        i == Registers::kStackPointer && rule.kind == RegisterRule::Kind::kSame
            ? base
            : CallersValue(rule, i, *base, registers, thread);
    if (!value.has_value() && i == frame.return_register &&
        rule.kind != RegisterRule::Kind::kUndefined) {
      return std::nullopt;
    }
    caller.values[i] = value.value_or(0);
  }
  std::uint64_t& pc = caller.values[Registers::kProgramCounter];
  pc = caller.values[static_cast<std::size_t>(frame.return_register)];
  if (row.return_is_signed) pc &= Registers::kAddressBits;
  return caller;
}

}  // namespace

bool ThreadCopy::Read(std::uint64_t address, std::span<std::byte> into) const {
  const std::uint64_t from = address - stack_address;
  if (address < stack_address || from > stack.size() || into.size() > stack.size() - from) {
    return false;
  }
  std::memcpy(into.data(), stack.data() + from, into.size());
  return true;
}

std::optional<FrameTable> Unwinder::TableOf(const Mapping& code, std::uint64_t pc) const {
  // The mapping of the file's beginning, which has its header.
  const Mapping* first = &code;
  while (first->offset != 0 && first != mappings_.data()) {
    --first;
    if (first->path == code.path) continue;
    // Between a file's parts there may be memory without a file, and nothing else.
    if (!first->path.empty()) return std::nullopt;
  }
  ElfW(Ehdr) header{};
  if (first->offset != 0 || first->path.empty() ||
      !memory_.Read(first->begin, std::as_writable_bytes(std::span(&header, 1))) ||
      std::string_view(reinterpret_cast<const char*>(header.e_ident), SELFMAG) != ELFMAG ||
      header.e_phnum > kMostSegments || header.e_phentsize != sizeof(ElfW(Phdr))) {
    return std::nullopt;
  }
  std::vector<ElfW(Phdr)> segments(header.e_phnum);
  if (!memory_.Read(first->begin + header.e_phoff, std::as_writable_bytes(std::span(segments)))) {
    return std::nullopt;
  }
  const auto beginning = std::ranges::find_if(segments, [](const ElfW(Phdr) & segment) {
    return segment.p_type == PT_LOAD && segment.p_offset == 0;
  });
  if (beginning == segments.end()) return std::nullopt;
  const std::uint64_t bias = first->begin - beginning->p_vaddr;
  std::optional<FrameTable> table;
  bool has_code = false;
  for (const ElfW(Phdr) & segment : segments) {
    if (segment.p_type == PT_GNU_EH_FRAME) {
      table = FrameTable{.address = bias + segment.p_vaddr, .size = segment.p_memsz};
    }
    has_code |= segment.p_type == PT_LOAD && pc - (bias + segment.p_vaddr) < segment.p_memsz;
  }
  return has_code ? table : std::nullopt;
}

std::unique_ptr<Unwinder::Frame> Unwinder::FindFrameAt(std::uint64_t pc) const {
  const Mapping* const code = FindMapping(mappings_, pc);
  if (code == nullptr || !code->is_code) return nullptr;
  const std::optional<FrameTable> table = TableOf(*code, pc);
  if (!table.has_value()) return nullptr;
  std::optional<FrameDescription> description = FindFrame(memory_, *table, pc);
  if (!description.has_value()) return nullptr;
  auto frame = std::make_unique<Frame>();
  frame->description = *std::move(description);
  const std::optional<FrameRow> row = RowAt(frame->description, pc);
  if (!row.has_value()) return nullptr;
  frame->row = *row;
  return frame;
}

const Unwinder::Frame* Unwinder::FrameAt(std::uint64_t pc) {
  const auto [found, is_new] = frames_.try_emplace(pc);
  if (is_new) found->second = FindFrameAt(pc);
  return found->second.get();
}

Calls Unwinder::Follow(const ThreadCopy& thread) {
  Calls calls;
  Registers registers = thread.registers;
  calls.addresses.push_back(registers.program_counter());
  while (true) {
    // A return address is after the call, which may have been the function's last instruction.
    const std::uint64_t pc = calls.addresses.back();
    const Frame* const frame = FrameAt(pc);
    if (frame == nullptr) return calls;
    const FrameDescription& description = frame->description;
    const auto caller = CallersRegisters(description, frame->row, registers, thread);
    if (!caller.has_value()) return calls;
    // What starts a thread says so by a return address that is gone, or 0.
    const auto return_register = static_cast<std::size_t>(description.return_register);
    const std::uint64_t next = caller->program_counter();
    if (frame->row.registers[return_register].kind == RegisterRule::Kind::kUndefined || next == 0) {
      calls.end = Calls::End::kFirst;
      return calls;
    }
    const Mapping* const code = FindMapping(mappings_, next);
    if (code == nullptr || !code->is_code) return calls;
    // Stacks grow downwards, so each caller's frame is above. A handler may have a stack of its
    // own, and a function without a frame of its own leaves the stack as it is.
    const bool goes_up = caller->stack_pointer() > registers.stack_pointer() ||
                         (caller->stack_pointer() == registers.stack_pointer() &&
                          next != registers.program_counter());
    if (!goes_up && !description.of_signal) return calls;
    if (calls.addresses.size() >= kMostCalls) {
      calls.end = Calls::End::kMore;
      return calls;
    }
    calls.addresses.push_back(description.of_signal ? next : next - 1);
    registers = *caller;
  }
}

}  // namespace tfos
