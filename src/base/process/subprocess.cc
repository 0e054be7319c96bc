#include "base/process/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/process/close_on_exec.h"
#include "base/process/pidfd.h"

namespace tfos {
namespace {

constexpr auto kKillWait = std::chrono::seconds(10);  // the kernel may be busy freeing its memory

/// What the child could not do, sent through a pipe that closes when `execve` succeeds.
struct StartFailure {
  enum class Step : int { kSession, kDescriptors, kDirectory, kExecute } step;
  int error;
};

std::string_view StepName(StartFailure::Step step) {
  switch (step) {
    case StartFailure::Step::kSession:
      return "make a session of its own";
    case StartFailure::Step::kDescriptors:
      return "set up its file descriptors";
    case StartFailure::Step::kDirectory:
      return "enter its working directory";
    case StartFailure::Step::kExecute:
      return "execute the program";
  }
  return "start";
}

/// Everything that the child needs between fork and exec, made before the fork: from there on only
/// async-signal-safe calls are allowed, as another thread may have held any lock.
struct ChildPlan {
  const char* path;
  char* const* argv;
  char* const* environment;
  const char* cwd;  // null: stay
  const int* keep_fds;
  std::size_t keep_count;
  int null_fd;
  int output_fd;   // -1: shared with the parent
  int failure_fd;  // close-on-exec
  pid_t parent;
  bool die_with_parent;
};

[[noreturn]] void FailInChild(const ChildPlan& plan, StartFailure::Step step) {
  const StartFailure failure{step, errno};
  // Without a reader there is nobody left to tell.
  [[maybe_unused]] ssize_t written = ::write(plan.failure_fd, &failure, sizeof(failure));
  ::_exit(127);
}

void ResetSignals() {
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  // Fails for KILL, STOP and the C library's own, which have no other disposition anyway.
  for (int signal = 1; signal < NSIG; ++signal) ::sigaction(signal, &standard, nullptr);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void RunChild(const ChildPlan& plan) {
  if (::setsid() < 0) FailInChild(plan, StartFailure::Step::kSession);
  if (plan.die_with_parent) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // The parent may have died before the line above took effect.
    if (::getppid() != plan.parent) ::_exit(127);
  }
  ResetSignals();
  if (::dup2(plan.null_fd, STDIN_FILENO) < 0) FailInChild(plan, StartFailure::Step::kDescriptors);
  if (plan.output_fd >= 0 &&
      (::dup2(plan.output_fd, STDOUT_FILENO) < 0 || ::dup2(plan.output_fd, STDERR_FILENO) < 0)) {
    FailInChild(plan, StartFailure::Step::kDescriptors);
  }
  if (!MarkCloseOnExec(STDERR_FILENO + 1)) FailInChild(plan, StartFailure::Step::kDescriptors);
  for (std::size_t i = 0; i < plan.keep_count; ++i) {
    if (::fcntl(plan.keep_fds[i], F_SETFD, 0) < 0) {
      FailInChild(plan, StartFailure::Step::kDescriptors);
    }
  }
  if (plan.cwd != nullptr && ::chdir(plan.cwd) < 0) {
    FailInChild(plan, StartFailure::Step::kDirectory);
  }
  ::execve(plan.path, plan.argv, plan.environment);
  FailInChild(plan, StartFailure::Step::kExecute);
}

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

/// A descriptor below 3 would be overwritten by the child's standard ones.
Status MoveAboveStandard(UniqueFd& fd, std::string_view doing) {
  if (fd.get() > STDERR_FILENO) return Status::Ok();
  const int moved = ::fcntl(fd.get(), F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (moved < 0) return Status::FromErrno(errno, doing);
  fd.Reset(moved);
  return Status::Ok();
}

Result<Pipe> MakePipe(std::string_view doing) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) < 0) return Status::FromErrno(errno, doing);
  Pipe pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
  TFOS_RETURN_IF_ERROR(MoveAboveStandard(pipe.reader, doing));
  TFOS_RETURN_IF_ERROR(MoveAboveStandard(pipe.writer, doing));
  return pipe;
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& text : strings) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    environment.emplace_back(*entry);
  }
  return environment;
}

/// Where `program` is, as execvp would find it with the child's PATH.
std::string FindProgram(const std::string& program, const std::vector<std::string>& environment) {
  if (program.find('/') != std::string::npos) return program;
  std::string_view path = "/usr/local/bin:/usr/bin:/bin";
  for (const std::string& entry : environment) {
    if (entry.starts_with("PATH=")) path = std::string_view(entry).substr(5);
  }
  while (true) {
    const std::size_t colon = path.find(':');
    const std::string_view folder = path.substr(0, colon);
    std::string candidate = fmt::format("{}/{}", folder.empty() ? "." : folder, program);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
    if (colon == std::string_view::npos) return program;  // execve names the error
    path.remove_prefix(colon + 1);
  }
}

/// Forks with all signals blocked, so that no handler of the parent runs in the child.
pid_t ForkBlocked(const ChildPlan& plan) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = ::fork();
  if (pid == 0) RunChild(plan);
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  return pid;
}

/// Reads until `execve` has closed the pipe (OK) or the child has said what failed.
Status AwaitExec(const UniqueFd& failures, const SubprocessOptions& options) {
  StartFailure failure{};
  ssize_t got = 0;
  do {
    got = ::read(failures.get(), &failure, sizeof(failure));
  } while (got < 0 && errno == EINTR);
  if (got == 0) return Status::Ok();
  if (got != sizeof(failure)) return Status::FromErrno(errno, "hear from a new process");
  std::string doing = fmt::format("start {}: {}", options.argv.front(), StepName(failure.step));
  if (failure.step == StartFailure::Step::kDirectory) doing += " " + options.cwd;
  return Status::FromErrno(failure.error, doing);
}

/// The C library of an executor may be older than sigabbrev_np.
std::string_view SignalName(int signal) {
  switch (signal) {
    case SIGHUP:
      return "SIGHUP";
    case SIGINT:
      return "SIGINT";
    case SIGQUIT:
      return "SIGQUIT";
    case SIGILL:
      return "SIGILL";
    case SIGTRAP:
      return "SIGTRAP";
    case SIGABRT:
      return "SIGABRT";
    case SIGBUS:
      return "SIGBUS";
    case SIGFPE:
      return "SIGFPE";
    case SIGKILL:
      return "SIGKILL";
    case SIGSEGV:
      return "SIGSEGV";
    case SIGPIPE:
      return "SIGPIPE";
    case SIGTERM:
      return "SIGTERM";
    case SIGXCPU:
      return "SIGXCPU";
    default:
      return "";
  }
}

void ReapNow(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace

std::string ExitStatus::Describe() const {
  if (!signalled) return fmt::format("exited with code {}", code);
  const std::string_view name = SignalName(code);
  std::string text = name.empty() ? fmt::format("was killed by signal {}", code)
                                  : fmt::format("was killed by {} (signal {})", name, code);
  if (code == SIGKILL) text += "; the kernel's out-of-memory killer does that";
  return text;
}

Subprocess::Subprocess(std::string name, pid_t pid, UniqueFd pidfd, UniqueFd output)
    : name_(std::move(name)), pid_(pid), pidfd_(std::move(pidfd)), output_(std::move(output)) {}

Subprocess::~Subprocess() {
  if (pid_ == 0) return;
  SignalGroup(SIGKILL);
  if (WaitForEnd(pidfd_, Deadline::After(kKillWait))) TryReap();
}

Result<std::unique_ptr<Subprocess>> Subprocess::Start(const SubprocessOptions& options) {
  if (options.argv.empty()) return Status(ErrorKind::kBug, "a process needs a program to run");
  TFOS_ASSIGN_OR_RETURN(Pipe failures, MakePipe("open a pipe to a new process"));
  Pipe output;
  if (options.capture_output) {
    TFOS_ASSIGN_OR_RETURN(output, MakePipe("open a pipe for a process's output"));
    ::fcntl(output.reader.get(), F_SETFL, O_NONBLOCK);
  }
  UniqueFd null_fd(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!null_fd.valid()) return Status::FromErrno(errno, "open /dev/null");
  TFOS_RETURN_IF_ERROR(MoveAboveStandard(null_fd, "open /dev/null"));

  const std::vector<std::string> environment =
      options.environment.has_value() ? *options.environment : OwnEnvironment();
  const std::string path = FindProgram(options.argv.front(), environment);
  const std::vector<char*> argv_pointers = Pointers(options.argv);
  const std::vector<char*> environment_pointers = Pointers(environment);
  const ChildPlan plan{
      .path = path.c_str(),
      .argv = argv_pointers.data(),
      .environment = environment_pointers.data(),
      .cwd = options.cwd.empty() ? nullptr : options.cwd.c_str(),
      .keep_fds = options.keep_fds.data(),
      .keep_count = options.keep_fds.size(),
      .null_fd = null_fd.get(),
      .output_fd = output.writer.get(),
      .failure_fd = failures.writer.get(),
      .parent = ::getpid(),
      .die_with_parent = options.die_with_parent,
  };
  const pid_t pid = ForkBlocked(plan);
  if (pid < 0) {
    const Status failed = Status::FromErrno(errno, "fork for " + options.argv.front());
    // EAGAIN, which says elsewhere that the same call may succeed in a moment.
    if (failed.kind() != ErrorKind::kRetryLater) return failed;
    return Status(ErrorKind::kNoResources, failed.message());
  }

  failures.writer.Reset();
  output.writer.Reset();
  if (Status started = AwaitExec(failures.reader, options); !started.ok()) {
    ReapNow(pid);
    return started;
  }
  Result<UniqueFd> pidfd = OpenPidfd(pid);
  if (!pidfd.ok()) {
    ::kill(-pid, SIGKILL);
    ReapNow(pid);
    return pidfd.status().Annotate("start " + options.argv.front());
  }
  return std::unique_ptr<Subprocess>(new Subprocess(
      options.argv.front(), pid, std::move(pidfd).value(), std::move(output.reader)));
}

void Subprocess::SignalGroup(int signal) {
  if (pid_ > 0) ::kill(-pid_, signal);
}

std::optional<ExitStatus> Subprocess::TryReap() {
  if (pid_ == 0) return exit_;
  siginfo_t info{};
  // First without reaping: the group is killed while its number is still ours.
  if (::waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0) {
    return std::nullopt;
  }
  SignalGroup(SIGKILL);
  ReapNow(pid_);
  pid_ = 0;
  pidfd_.Reset();
  exit_ = ExitStatus{.signalled = info.si_code != CLD_EXITED, .code = info.si_status};
  return exit_;
}

Result<ExitStatus> Subprocess::Wait(Deadline deadline) {
  if (pid_ > 0 && !WaitForEnd(pidfd_, deadline)) {
    return Status(ErrorKind::kRetryLater,
                  fmt::format("{} (process {}) has not ended in time", name_, pid_));
  }
  const std::optional<ExitStatus> exit = TryReap();
  if (!exit.has_value()) {
    return Status(ErrorKind::kBug, fmt::format("{} ended but could not be reaped", name_));
  }
  return *exit;
}

Result<ExitStatus> Subprocess::Stop(Deadline deadline) {
  SignalGroup(SIGTERM);
  Result<ExitStatus> ended = Wait(deadline);
  if (ended.ok()) return ended;
  SignalGroup(SIGKILL);
  return Wait(Deadline::After(kKillWait));
}

Result<CapturedRun> RunAndCapture(SubprocessOptions options, Deadline deadline,
                                  std::size_t max_output_bytes) {
  options.capture_output = true;
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Subprocess> process, Subprocess::Start(options));
  std::string output;
  char buffer[4096];
  while (true) {
    const ssize_t got = ::read(process->output().get(), buffer, sizeof(buffer));
    if (got > 0) output.append(buffer, static_cast<std::size_t>(got));
    if (output.size() > max_output_bytes) {
      return Status(ErrorKind::kBadInput, fmt::format("{} wrote more than {} bytes",
                                                      options.argv.front(), max_output_bytes));
    }
    if (got == 0) break;
    if (got > 0 || errno == EINTR) continue;
    if (errno != EAGAIN) return Status::FromErrno(errno, "read from " + options.argv.front());
    pollfd readable{.fd = process->output().get(), .events = POLLIN, .revents = 0};
    if (::poll(&readable, 1, deadline.PollMilliseconds()) == 0 && deadline.passed()) {
      return Status(ErrorKind::kRetryLater,
                    fmt::format("{} has not ended in time", options.argv.front()));
    }
  }
  TFOS_ASSIGN_OR_RETURN(const ExitStatus exit, process->Wait(deadline));
  return CapturedRun{.exit = exit, .output = std::move(output)};
}

}  // namespace tfos
