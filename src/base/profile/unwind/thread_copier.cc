#include "base/profile/unwind/thread_copier.h"

#include <elf.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/thread/thread.h"

namespace tfos {
namespace {

/// Below a stack pointer a function may keep data without moving it (x86-64's red zone).
constexpr std::uint64_t kRedZone = 128;
constexpr std::uint64_t kPageBytes = 4096;

/// What the kernel says of a thread.
struct Kept {
  char state = '?';
  pid_t tracer = 0;

  bool ended() const { return state == '?' || state == 'Z' || state == 'X'; }
};

Kept Look(pid_t pid, pid_t thread) {
  Kept found;
  std::ifstream file(fmt::format("/proc/{}/task/{}/status", pid, thread));
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string field;
    fields >> field;
    if (field == "State:") fields >> found.state;
    if (field == "TracerPid:") fields >> found.tracer;
  }
  return found;
}

std::string ErrorText(int error) { return std::system_category().message(error); }

/// Waits until the thread stops or ends. nullopt: it has done neither in time.
std::optional<int> AwaitStop(pid_t thread, const Deadline& deadline) {
  while (true) {
    int status = 0;
    const pid_t got = ::waitpid(thread, &status, __WALL | WNOHANG);
    if (got == thread) return status;
    if (got < 0 && errno != EINTR) return W_EXITCODE(0, 0);
    if (deadline.passed()) return std::nullopt;
    // The thread stands while this one sleeps.
    constexpr timespec kMoment{.tv_sec = 0, .tv_nsec = 10'000};
    ::nanosleep(&kMoment, nullptr);
  }
}

/// As DWARF numbers them. False: there are none of this processor, or the thread has ended.
bool ReadRegisters(pid_t thread, Registers& registers) {
  user_regs_struct found{};
  iovec room{.iov_base = &found, .iov_len = sizeof(found)};
  // Of a 32-bit program there are fewer.
  if (::ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &room) != 0 ||
      room.iov_len != sizeof(found)) {
    return false;
  }
#if defined(__x86_64__)
  registers.values = {found.rax, found.rdx, found.rcx, found.rbx, found.rsi, found.rdi,
                      found.rbp, found.rsp, found.r8,  found.r9,  found.r10, found.r11,
                      found.r12, found.r13, found.r14, found.r15, found.rip};
#elif defined(__aarch64__)
  std::ranges::copy(found.regs, registers.values.begin());
  registers.values[Registers::kStackPointer] = found.sp;
  registers.values[Registers::kProgramCounter] = found.pc;
#endif
  return true;
}

}  // namespace

Result<ThreadCopier::Copied> ThreadCopier::Copy(pid_t thread, const Deadline& deadline) const {
  // A thread that does not stop can't be let go of. But the kernel lets go of all that a thread
  // traces when that ends.
  Result<Copied> copied = Status(ErrorKind::kBug, "a thread was not copied");
  TFOS_ASSIGN_OR_RETURN(std::thread copies, StartThread("tfos-copy-stack", [&] {
                          copied = CopyHere(thread, deadline);
                        }));
  copies.join();
  return copied;
}

Result<ThreadCopier::Copied> ThreadCopier::CopyHere(pid_t thread, const Deadline& deadline) const {
  const Kept before = Look(pid_, thread);
  if (before.ended()) return Copied{.ended = true};
  if (before.state == 'D') {
    return Copied{.why_not = "it waits in the kernel, and can't be interrupted"};
  }
  ::prctl(PR_SET_TIMERSLACK, 1);
  if (::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) != 0) {
    const int error = errno;
    const Kept now = Look(pid_, thread);
    // The kernel refuses those on their way out, too.
    if (now.ended() || error == ESRCH) return Copied{.ended = true};
    if (now.tracer != 0) {
      return Copied{.why_not = fmt::format("a debugger (process {}) has it", now.tracer)};
    }
    return Status(ErrorKind::kUnsupported, fmt::format("ptrace: {}", ErrorText(error)));
  }
  const auto begin = std::chrono::steady_clock::now();
  if (::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) != 0) return Copied{.ended = true};
  const std::optional<int> status = AwaitStop(thread, Deadline::After(kPatience).Min(deadline));
  if (!status.has_value()) {
    return Copied{.why_not = fmt::format("it did not stop within {} ms", kPatience.count())};
  }
  if (!WIFSTOPPED(*status)) return Copied{.ended = true};
  Copied copied = TakeCopy(thread);
  // It may have stopped because of a signal that it was about to get, which it must get.
  const bool of_signal = (*status >> 16) == 0;
  const auto signal = static_cast<std::intptr_t>(of_signal ? WSTOPSIG(*status) : 0);
  ::ptrace(PTRACE_DETACH, thread, nullptr, reinterpret_cast<void*>(signal));
  copied.stood = std::chrono::steady_clock::now() - begin;
  return copied;
}

ThreadCopier::Copied ThreadCopier::TakeCopy(pid_t thread) const {
  ThreadCopy copy;
  if (!ReadRegisters(thread, copy.registers)) {
    if (Look(pid_, thread).ended()) return {.ended = true};
    return {.why_not = "its registers can't be read"};
  }
  copy.stack_address = copy.registers.stack_pointer() - kRedZone;
  const Mapping* const stack = FindMapping(mappings_, copy.stack_address);
  // To read a file could take as long as its disk wants. The stack of a thread that has begun just
  // now is not in the map: its first page must do.
  if (stack == nullptr || !stack->path.starts_with('/')) {
    const std::uint64_t end =
        stack != nullptr ? stack->end : (copy.stack_address / kPageBytes + 1) * kPageBytes;
    copy.stack.resize(std::min<std::uint64_t>(end - copy.stack_address, kMostStackBytes));
    copy.stack.resize(MemoryOfProcess(pid_).ReadSome(copy.stack_address, copy.stack));
  }
  return {.copy = std::move(copy)};
}

}  // namespace tfos
