#include "cli/native_stacks_command.h"

#include <sys/types.h>

#include <iostream>
#include <limits>
#include <memory>

#include "base/profile/native_stacks.h"

namespace tfos::cli {
namespace {

/// Far below a message's limit, beside Python's half of an answer.
constexpr std::size_t kMostBytes = 256u << 10;

}  // namespace

void AddNativeStacksCommand(CLI::App& app) {
  CLI::App* command =
      app.add_subcommand("native-stacks", "Print the native calls of a process's threads");
  command->group("");
  const auto pid = std::make_shared<pid_t>();
  command->add_option("PID", *pid)
      ->required()
      ->check(CLI::Range(pid_t{1}, std::numeric_limits<pid_t>::max()));
  command->callback([pid] { std::cout << NativeStacksText(*pid, kMostBytes) << std::flush; });
}

}  // namespace tfos::cli
