#include "base/profile/native_stacks.h"

#include <execinfo.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <span>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/format.h"
#include "base/profile/symbols.h"
#include "base/text/printable.h"
#include "base/thread/mutex.h"

namespace tfos {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kThreadPatience(100);
/// Old C libraries take the loader's lock to walk.
constexpr milliseconds kWalkPatience(500);
constexpr std::size_t kMostThreads = 1000;
constexpr std::size_t kMostFrames = 128;
/// Of threads with the same calls.
constexpr std::size_t kMostNumbers = 12;

/// What the thread that asks shares with the handler in the one that is asked. A handler that comes
/// too late finds another round, or an answer that nobody wants any more, and touches nothing.
enum Phase : std::uint32_t { kNobody = 0, kAsked = 1, kWalks = 2, kTold = 3 };
struct Exchange {
  std::atomic<std::uint32_t> word = kNobody;  ///< The round, and in its two lowest bits the phase.
  std::array<void*, kMostFrames> frames;
  int count = 0;
  std::uintptr_t interrupted = 0;  ///< Where the thread was; 0: this processor does not tell.
};
Exchange exchange;

std::uint32_t WordOf(std::uint32_t round, Phase phase) { return round << 2 | phase; }

std::uintptr_t InterruptedAt([[maybe_unused]] const void* context) {
#if defined(__x86_64__)
  return static_cast<std::uintptr_t>(
      static_cast<const ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  return static_cast<std::uintptr_t>(static_cast<const ucontext_t*>(context)->uc_mcontext.pc);
#else
  return 0;
#endif
}

/// Without locks and memory: the thread may have been interrupted anywhere.
void OnSignal(int, siginfo_t* info, void* context) {
  const int before = errno;
  const auto round = static_cast<std::uint32_t>(info->si_value.sival_int);
  std::uint32_t asked = WordOf(round, kAsked);
  if (info->si_code == SI_QUEUE &&
      exchange.word.compare_exchange_strong(asked, WordOf(round, kWalks))) {
    exchange.count = ::backtrace(exchange.frames.data(), static_cast<int>(exchange.frames.size()));
    exchange.interrupted = InterruptedAt(context);
    exchange.word.store(WordOf(round, kTold));
    ::syscall(SYS_futex, &exchange.word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
  }
  errno = before;
}

Status TakeSignal() {
  struct sigaction now {};
  const int signal = SignalOfNativeStacks();
  if (::sigaction(signal, nullptr, &now) != 0) return Status::FromErrno(errno, "look at a signal");
  if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &OnSignal) return Status::Ok();
  if (now.sa_handler != SIG_DFL) {
    return Status(ErrorKind::kUnsupported,
                  fmt::format("the program has taken the signal {} (SIGRTMIN+{}), by which tfos "
                              "would read them",
                              signal, signal - SIGRTMIN));
  }
  struct sigaction action {};
  action.sa_sigaction = &OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  ::sigfillset(&action.sa_mask);
  // It stays: the default action would end the process when a thread gets the signal late.
  if (::sigaction(signal, &action, nullptr) != 0) return Status::FromErrno(errno, "take a signal");
  return Status::Ok();
}

/// What the kernel says of a thread before it is asked.
struct Beforehand {
  char state = '?';
  bool blocks = false;
};

Beforehand Look(pid_t thread, int signal) {
  Beforehand found;
  std::ifstream file(fmt::format("/proc/self/task/{}/status", thread));
  for (std::string line; std::getline(file, line);) {
    std::istringstream fields(line);
    std::string field;
    fields >> field;
    if (field == "State:") fields >> found.state;
    if (field == "SigBlk:") {
      std::uint64_t mask = 0;
      fields >> std::hex >> mask;
      found.blocks = (mask >> (signal - 1) & 1) != 0;
    }
  }
  return found;
}

std::string NameOf(pid_t thread) {
  std::string name;
  std::ifstream file(fmt::format("/proc/self/task/{}/comm", thread));
  std::getline(file, name);
  return Printable(std::move(name));
}

/// Waits until the word differs from `from`. False: the deadline has passed.
bool AwaitChange(std::uint32_t from, const Deadline& deadline) {
  while (exchange.word.load() == from) {
    if (deadline.passed()) return false;
    const auto left = std::chrono::nanoseconds(deadline.Remaining()).count();
    const timespec time{.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    ::syscall(SYS_futex, &exchange.word, FUTEX_WAIT_PRIVATE, from, &time, nullptr, 0);
  }
  return true;
}

/// Sends the signal with the round's number, which the handler compares.
bool Signal(pid_t thread, std::uint32_t round) {
  siginfo_t info{};
  info.si_signo = SignalOfNativeStacks();
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_int = static_cast<int>(round);
  return ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, info.si_signo, &info) == 0;
}

/// The calls without those of the handler.
std::vector<std::uintptr_t> ToldCalls() {
  std::vector<std::uintptr_t> calls;
  for (const void* frame : std::span(exchange.frames).first(exchange.count)) {
    calls.push_back(reinterpret_cast<std::uintptr_t>(frame));
  }
  const auto first = std::ranges::find(calls, exchange.interrupted);
  if (first != calls.end()) {
    calls.erase(calls.begin(), first);
  } else if (exchange.interrupted != 0) {
    calls = {exchange.interrupted};  // What lies beyond the handler could not be read.
  }
  // The others are where calls return to: the call itself is before that.
  for (std::size_t i = 1; i < calls.size(); ++i) --calls[i];
  return calls;
}

/// False when the thread has ended.
bool Ask(NativeStack& stack, const Deadline& deadline) {
  const Beforehand before = Look(stack.thread, SignalOfNativeStacks());
  if (before.state == '?' || before.state == 'Z' || before.state == 'X') return false;
  if (before.blocks) {
    stack.why_not = "it blocks signals, as threads of tfos do";
    return true;
  }
  if (before.state == 'D') {
    stack.why_not = "it waits in the kernel and takes no signals";
    return true;
  }
  const std::uint32_t round = (exchange.word.load() >> 2) + 1;
  const std::uint32_t asked = WordOf(round, kAsked);
  exchange.word.store(asked);
  if (!Signal(stack.thread, round)) {
    stack.why_not = std::system_category().message(errno);
  } else {
    AwaitChange(asked, Deadline::After(kThreadPatience).Min(deadline));
    stack.why_not = "it did not answer within 100 ms";
  }
  // From here on a handler that has not begun leaves the exchange alone.
  std::uint32_t unanswered = asked;
  if (exchange.word.compare_exchange_strong(unanswered, WordOf(round, kNobody))) return true;
  if (AwaitChange(WordOf(round, kWalks), Deadline::After(kWalkPatience))) {
    stack.calls = ToldCalls();
    stack.goes_on = static_cast<std::size_t>(exchange.count) == kMostFrames;
  } else {
    stack.why_not = "it has not come to the end of its own stack";  // It keeps the exchange.
  }
  return true;
}

std::vector<pid_t> OtherThreads() {
  std::vector<pid_t> threads;
  std::error_code error;
  const auto own = static_cast<pid_t>(::syscall(SYS_gettid));
  for (auto entry = std::filesystem::directory_iterator("/proc/self/task", error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    if (thread != own) threads.push_back(thread);
  }
  std::ranges::sort(threads);
  return threads;
}

/// The lines of one thread.
std::string Lines(const NativeStack& stack,
                  const std::map<std::uintptr_t, std::string>& names_of_code) {
  if (stack.calls.empty()) return fmt::format("  not known: {}\n", stack.why_not);
  std::vector<std::string> lines;
  bool goes_on = stack.goes_on;
  for (const std::uintptr_t call : stack.calls) {
    std::string line = names_of_code.at(call);
    // 3.14's interpreter has a function for each instruction.
    if (line.starts_with("_PyEval_EvalFrameDefault") || line.starts_with("_TAIL_CALL_")) {
      lines.emplace_back("... Python, see above ...");
      goes_on = false;
      break;
    }
    lines.push_back(std::move(line));
  }
  if (goes_on) lines.emplace_back("... earlier calls are left out ...");
  std::string text;
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) text += "  " + *line + "\n";
  return text;
}

std::string Heading(const std::vector<const NativeStack*>& alike) {
  if (alike.size() == 1) {
    return fmt::format("thread {} '{}':\n", alike[0]->thread, alike[0]->name);
  }
  std::map<std::string_view, std::vector<pid_t>> by_name;
  for (const NativeStack* stack : alike) by_name[stack->name].push_back(stack->thread);
  std::string text;
  std::size_t shown = 0;
  for (const auto& [name, threads] : by_name) {
    text += fmt::format("{}'{}'", text.empty() ? "" : "; ", name);
    for (const pid_t thread : threads) {
      if (shown++ < kMostNumbers) text += fmt::format(" {}", thread);
    }
    if (shown >= kMostNumbers) break;
  }
  if (shown > kMostNumbers) text += " ...";
  return fmt::format("{} threads ({}):\n", alike.size(), text);
}

}  // namespace

// Beside that of Python's stacks (tfos.node.stacks).
int SignalOfNativeStacks() { return SIGRTMIN + 10; }

void PrepareNativeStacks() {
  std::array<void*, 4> frames;
  ::backtrace(frames.data(), static_cast<int>(frames.size()));
}

Result<std::vector<NativeStack>> TakeNativeStacks(const Deadline& deadline) {
  static Mutex one_at_a_time;
  const MutexLock lock(one_at_a_time);
  if ((exchange.word.load() & 3) == kWalks) {
    return Status(ErrorKind::kRetryLater, "a thread that was asked before still walks its stack");
  }
  PrepareNativeStacks();
  TFOS_RETURN_IF_ERROR(TakeSignal());
  std::vector<NativeStack> stacks;
  for (const pid_t thread : OtherThreads()) {
    NativeStack& stack = stacks.emplace_back(NativeStack{.thread = thread, .name = NameOf(thread)});
    if (deadline.passed() || stacks.size() > kMostThreads) {
      stack.why_not = "too many threads came before it";
    } else if ((exchange.word.load() & 3) == kWalks) {
      stack.why_not = "a thread that came before it still walks its stack";
    } else if (!Ask(stack, deadline)) {
      stacks.pop_back();
    }
  }
  return stacks;
}

std::string DescribeNativeStacks(const std::vector<NativeStack>& stacks, const Deadline& deadline,
                                 std::size_t most_bytes) {
  std::set<std::uintptr_t> addresses;
  for (const NativeStack& stack : stacks) addresses.insert(stack.calls.begin(), stack.calls.end());
  const std::map<std::uintptr_t, std::string> names = NamesOfCode(addresses, deadline);
  std::vector<std::pair<std::string, std::vector<const NativeStack*>>> groups;
  std::map<std::string, std::size_t> group_of;
  // Those that say nothing come last.
  for (const bool silent : {false, true}) {
    for (const NativeStack& stack : stacks) {
      if (stack.calls.empty() != silent) continue;
      std::string lines = Lines(stack, names);
      const auto [group, is_new] = group_of.try_emplace(lines, groups.size());
      if (is_new) groups.emplace_back(std::move(lines), std::vector<const NativeStack*>());
      groups[group->second].second.push_back(&stack);
    }
  }
  std::string text = "Native calls of all threads, the latest last:\n";
  std::size_t left_out = stacks.size();
  for (const auto& [lines, alike] : groups) {
    const std::string next = "\n" + Heading(alike) + lines;
    if (text.size() + next.size() > most_bytes) break;
    text += next;
    left_out -= alike.size();
  }
  if (left_out > 0) text += fmt::format("\n{} more threads are left out.\n", left_out);
  return text;
}

std::string NativeStacksText(std::size_t most_bytes) {
  const auto stacks = TakeNativeStacks(Deadline::After(std::chrono::seconds(2)));
  if (!stacks.ok()) {
    return fmt::format("no native calls of threads: {}\n", stacks.status().message());
  }
  return DescribeNativeStacks(*stacks, Deadline::After(std::chrono::seconds(2)), most_bytes);
}

}  // namespace tfos
