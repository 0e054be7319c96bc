#include "base/profile/native_stacks.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/format.h"
#include "base/printable.h"
#include "base/profile/symbols.h"
#include "base/profile/unwind/thread_copier.h"
#include "base/profile/unwind/unwinder.h"

namespace tfos {
namespace {

constexpr std::size_t kMostThreads = 1000;
/// Of threads with the same calls.
constexpr std::size_t kMostNumbers = 12;

std::string NameOf(pid_t pid, pid_t thread) {
  std::string name;
  std::ifstream file(fmt::format("/proc/{}/task/{}/comm", pid, thread));
  std::getline(file, name);
  return Printable(name);
}

std::vector<pid_t> ThreadsOf(pid_t pid) {
  std::vector<pid_t> threads;
  std::error_code error;
  for (auto entry = std::filesystem::directory_iterator(fmt::format("/proc/{}/task", pid), error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    pid_t thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    threads.push_back(thread);
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
  bool is_lost = stack.is_lost;
  for (const std::uintptr_t call : stack.calls) {
    std::string line = names_of_code.at(call);
    // 3.14's interpreter has a function for each instruction.
    if (line.starts_with("_PyEval_EvalFrameDefault") || line.starts_with("_TAIL_CALL_")) {
      lines.emplace_back("... Python, see above ...");
      goes_on = is_lost = false;
      break;
    }
    lines.push_back(std::move(line));
  }
  if (is_lost) lines.emplace_back("... earlier calls are not known ...");
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

Result<NativeStacks> TakeNativeStacks(pid_t pid, const Deadline& deadline) {
  const std::vector<pid_t> threads = ThreadsOf(pid);
  if (threads.empty())
    return Status(ErrorKind::kReconnect, fmt::format("process {} has ended", pid));
  NativeStacks stacks{.threads = {}, .map = ReadMemoryMap(pid)};
  const ThreadCopier copier(pid, stacks.map);
  const MemoryOfProcess memory(pid);
  Unwinder unwinder(memory, stacks.map);
  for (const pid_t thread : threads) {
    NativeStack stack{.thread = thread, .name = NameOf(pid, thread)};
    if (deadline.passed() || stacks.threads.size() >= kMostThreads) {
      stack.why_not = "too many threads came before it";
    } else {
      TFOS_ASSIGN_OR_RETURN(ThreadCopier::Copied copied, copier.Copy(thread, deadline));
      if (copied.ended) continue;
      stack.why_not = std::move(copied.why_not);
      stack.stood = copied.stood;
      if (copied.copy.has_value()) {
        Calls calls = unwinder.Follow(*copied.copy);
        stack.calls = std::move(calls.addresses);
        stack.goes_on = calls.end == Calls::End::kMore;
        stack.is_lost = calls.end == Calls::End::kLost;
      }
    }
    stacks.threads.push_back(std::move(stack));
  }
  return stacks;
}

std::string DescribeNativeStacks(const NativeStacks& stacks, const Deadline& deadline,
                                 std::size_t most_bytes) {
  std::set<std::uintptr_t> addresses;
  for (const NativeStack& stack : stacks.threads) {
    addresses.insert(stack.calls.begin(), stack.calls.end());
  }
  const std::map<std::uintptr_t, std::string> names = NamesOfCode(addresses, stacks.map, deadline);
  std::vector<std::pair<std::string, std::vector<const NativeStack*>>> groups;
  std::map<std::string, std::size_t> group_of;
  // Those that say nothing come last.
  for (const bool silent : {false, true}) {
    for (const NativeStack& stack : stacks.threads) {
      if (stack.calls.empty() != silent) continue;
      std::string lines = Lines(stack, names);
      const auto [group, is_new] = group_of.try_emplace(lines, groups.size());
      if (is_new) groups.emplace_back(std::move(lines), std::vector<const NativeStack*>());
      groups[group->second].second.push_back(&stack);
    }
  }
  std::string text = "Native calls of all threads, the latest last:\n";
  std::size_t left_out = stacks.threads.size();
  for (const auto& [lines, alike] : groups) {
    const std::string next = "\n" + Heading(alike) + lines;
    if (text.size() + next.size() > most_bytes) break;
    text += next;
    left_out -= alike.size();
  }
  if (left_out > 0) text += fmt::format("\n{} more threads are left out.\n", left_out);
  return text;
}

std::string NativeStacksText(pid_t pid, std::size_t most_bytes) {
  const auto stacks = TakeNativeStacks(pid, Deadline::After(std::chrono::seconds(2)));
  if (stacks.ok()) {
    return DescribeNativeStacks(*stacks, Deadline::After(std::chrono::seconds(2)), most_bytes);
  }
  if (stacks.status().kind() != ErrorKind::kUnsupported) {
    return fmt::format("no native calls of threads: {}\n", stacks.status().message());
  }
  return fmt::format(
      "no native calls of threads: the kernel does not let tfos look ({}). A host's administrator "
      "can allow it: kernel.yama.ptrace_scope must be 0 or 1, and a container needs a seccomp "
      "profile that allows ptrace, or the capability SYS_PTRACE.\n",
      stacks.status().message());
}

}  // namespace tfos
