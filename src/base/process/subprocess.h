#ifndef TFOS_BASE_PROCESS_SUBPROCESS_H_
#define TFOS_BASE_PROCESS_SUBPROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process/unique_fd.h"
#include "base/time/deadline.h"
#include "tfos/status.h"

namespace tfos {

/// How a process ended.
struct ExitStatus {
  bool signalled = false;
  int code = 0;  ///< The signal's number when `signalled`, else the exit code.
  /// It was told to end by SIGKILL, and is still there: it waits in the kernel. Nobody waits for
  /// it.
  bool left_behind = false;

  bool success() const { return !signalled && code == 0; }
  /// For people, to follow the name of the process: "exited with code 3".
  std::string Describe() const;
};

struct SubprocessOptions {
  /// Program and arguments. A name without a slash is looked up in the PATH of `environment`.
  std::vector<std::string> argv = {};
  /// The whole environment as NAME=value; unset means this process's own.
  std::optional<std::vector<std::string>> environment = {};
  /// Working directory; empty means this process's own.
  std::string cwd = {};
  /// Descriptors that stay open in the child under their numbers. All others are closed, except
  /// 0 to 2.
  std::vector<int> keep_fds = {};
  /// One pipe takes the child's standard output and error; else it shares this process's own.
  bool capture_output = false;
  /// SIGKILL for the child when the thread that started it ends, however that happens.
  bool die_with_parent = true;
};

/// A child process that leads a session, and so a process group, of its own.
///
/// Owner and lifetime: the object owns the process. Its destructor kills the group and reaps.
/// Threads: one at a time. With `die_with_parent` the starting thread must outlive the child.
/// Errors: a program that cannot be executed fails `Start`, not the child.
///
/// However the child ends, what is left of its group is killed before the child is reaped: until
/// then its number, which is the group's too, cannot come to mean anything else.
/// Its standard input is /dev/null; signals are at their defaults.
class Subprocess {
 public:
  static Result<std::unique_ptr<Subprocess>> Start(const SubprocessOptions& options);
  ~Subprocess();

  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  /// Zero once the child was reaped.
  pid_t pid() const { return pid_; }
  /// Polls readable once the child has ended. Valid until it was reaped.
  int pidfd() const { return pidfd_.get(); }
  /// The reading end of the output pipe, non-blocking; the caller may take it. Invalid without
  /// `capture_output`.
  UniqueFd& output() { return output_; }

  /// Sends `signal` to the whole group; nothing happens once the child was reaped.
  void SignalGroup(int signal);

  /// Reaps the child if it has ended; nullopt while it runs. The same answer ever after.
  std::optional<ExitStatus> TryReap();

  /// Waits for the end: its status, or retry-later when the deadline came first.
  Result<ExitStatus> Wait(Deadline deadline);

  /// TERM to the group, KILL when the deadline has come; reaps.
  Result<ExitStatus> Stop(Deadline deadline);

 private:
  Subprocess(std::string name, pid_t pid, UniqueFd pidfd, UniqueFd output);

  std::string name_;
  pid_t pid_;
  UniqueFd pidfd_;
  UniqueFd output_;
  std::optional<ExitStatus> exit_;
};

struct CapturedRun {
  ExitStatus exit;
  std::string output;  ///< Standard output and error.
};

/// Runs a short command to its end; kills it when the deadline comes or its output is longer than
/// `max_output_bytes`.
Result<CapturedRun> RunAndCapture(SubprocessOptions options, Deadline deadline,
                                  std::size_t max_output_bytes = 1 << 20);

}  // namespace tfos

#endif  // TFOS_BASE_PROCESS_SUBPROCESS_H_
