#include "cli/agent_command.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <string>
#include <utility>

#include "base/logging.h"
#include "control/agent/agent.h"
#include "control/host/executor_process.h"
#include "control/host/gpus/gpu_lease.h"
#include "control/host/streams/non_blocking_twin.h"

namespace tfos::cli {
namespace {

std::string HostName() {
  char name[256] = {};
  // A name that does not fit is cut; the last byte stays zero.
  if (::gethostname(name, sizeof(name) - 1) != 0) return "localhost";
  return name;
}

/// Moves standard stream `stream` to a descriptor of its own and leaves /dev/null in its place.
Result<UniqueFd> TakeStream(int stream, int null_fd) {
  UniqueFd taken(::fcntl(stream, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  if (!taken.valid() || ::dup2(null_fd, stream) < 0) {
    return Status::FromErrno(errno, "take a standard stream");
  }
  return taken;
}

Status Supervise(Result<pid_t> executor_jvm) {
  const UniqueFd null_fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_fd.valid()) return Status::FromErrno(errno, "open /dev/null");
  control::AgentOptions options{.host = HostName(),
                                .native_calls = {"/proc/self/exe", "native-stacks"},
                                .executor_jvm = std::move(executor_jvm)};
  TFOS_ASSIGN_OR_RETURN(options.input, TakeStream(STDIN_FILENO, null_fd.get()));
  TFOS_ASSIGN_OR_RETURN(options.output, TakeStream(STDOUT_FILENO, null_fd.get()));
  TFOS_ASSIGN_OR_RETURN(options.log, control::OpenNonBlockingTwin(STDERR_FILENO));
  // Our own log lines must not wait for the log's reader either.
  if (::dup2(options.log.get(), STDERR_FILENO) < 0) {
    return Status::FromErrno(errno, "take the standard error stream");
  }
  control::NvidiaSmiInventory inventory;
  control::RunAgent(std::move(options), inventory);
  return Status::Ok();
}

}  // namespace

int RunAgent() {
  SetUpLogging("agent", "INFO");
  // Before the fork: afterwards the launch task is nobody's parent that we could find.
  Result<pid_t> executor_jvm = control::FindExecutorJvm(::getppid());
  const pid_t pid = ::fork();
  if (pid < 0) {
    LogError("the agent could not leave its parent: {}",
             Status::FromErrno(errno, "fork").ToString());
    return 1;
  }
  if (pid > 0) return 0;
  ::setsid();  // fails only for a group leader, which a child just forked is not
  ::signal(SIGPIPE, SIG_IGN);
  if (Status ended = Supervise(std::move(executor_jvm)); !ended.ok()) {
    LogError("{}", ended.ToString());
    return 1;
  }
  return 0;
}

void AddAgentCommand(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("agent", "Supervise one node (started by tfos itself on executors)");
  command->group("");  // Not for people.
  command->callback([&exit_code] { exit_code = RunAgent(); });
}

}  // namespace tfos::cli
