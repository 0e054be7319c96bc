#ifndef TFOS_CLI_AGENT_TESTS_AGENT_COMMAND_FIXTURE_H_
#define TFOS_CLI_AGENT_TESTS_AGENT_COMMAND_FIXTURE_H_

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process/pidfd.h"
#include "base/process/subprocess.h"
#include "base/process/unique_fd.h"
#include "base/text/line_buffer.h"
#include "base/time/deadline.h"
#include "cli/agent_tests/test_coordinator.h"
#include "control/host/gpus/gpu_lease.h"
#include "control/host/held_port.h"
#include "control/messages/launch_messages.h"
#include "control/messages/parts/message_text.h"

// What the tests of `tfos agent` share: it runs as a launch task runs it, against a coordinator of
// the test's own, with small programs as nodes. What must end is watched through pidfds.
namespace tfos::cli {

using ::testing::Contains;
using ::testing::HasSubstr;

struct PipeEnds {
  UniqueFd reader;
  UniqueFd writer;

  PipeEnds() {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) ADD_FAILURE() << "no pipe";
    reader.Reset(fds[0]);
    writer.Reset(fds[1]);
  }
};

/// `tfos agent` with the test as its launch task.
class LaunchedAgent {
 public:
  explicit LaunchedAgent(const json& bootstrap, const std::string& payload = "") {
    PipeEnds input;
    PipeEnds output;
    PipeEnds log;
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, input.reader.get(), STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, output.writer.get(), STDOUT_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, log.writer.get(), STDERR_FILENO);
    std::string program = TFOS_EXECUTABLE;
    std::string command = "agent";
    std::array<char*, 3> argv = {program.data(), command.data(), nullptr};
    pid_t pid = 0;
    EXPECT_EQ(::posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ), 0);
    ::posix_spawn_file_actions_destroy(&actions);
    input_ = std::move(input.writer);
    output_ = std::move(output.reader);
    log_ = std::move(log.reader);
    Write(bootstrap.dump() + "\n" + payload);
    int status = -1;
    EXPECT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0) << "what the launch task started must end at once, with success";
  }

  void Write(const std::string& text) {
    EXPECT_EQ(::write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  void CloseInput() { input_.Reset(); }
  void CloseLog() { log_.Reset(); }
  /// As a reader that has stopped leaves it: nothing more goes into the executor's log.
  void FillLog() {
    const std::string path = "/proc/self/fd/" + std::to_string(log_.get());
    const UniqueFd writer(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
    ASSERT_TRUE(writer.valid());
    while (::write(writer.get(), "x", 1) == 1) {
    }
    EXPECT_EQ(errno, EAGAIN);
  }

  /// The next message to the launch task; null at the end.
  json Next() {
    while (true) {
      auto line = lines_.NextLine();
      if (line.ok() && line->has_value()) return json::parse(**line);
      std::array<char, 4096> buffer;
      if (!Readable(output_.get(), Deadline::After(kLong))) {
        ADD_FAILURE() << "the agent said nothing to the launch task";
        return {};
      }
      const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
      if (got <= 0) return {};
      lines_.Append({buffer.data(), static_cast<std::size_t>(got)});
    }
  }

  json Await(const std::string& type) {
    while (true) {
      json message = Next();
      if (message.is_null()) {
        ADD_FAILURE() << "the agent ended before it said " << type;
        return json::object();
      }
      if (message["type"] == type) return message;
    }
  }

  json AwaitState(const std::string& state) {
    while (true) {
      json message = Await("state");
      if (message.empty() || message["state"] == state) return message;
    }
  }

  /// True once the agent and all it started have closed the launch task's pipe.
  bool AwaitEnd() {
    while (!Next().is_null()) {
    }
    return true;
  }

  /// Everything that was written to the executor's log, until nobody can write to it any more.
  std::string AwaitLog() {
    std::string text;
    std::array<char, 4096> buffer;
    while (Readable(log_.get(), Deadline::After(kLong))) {
      const ssize_t got = ::read(log_.get(), buffer.data(), buffer.size());
      if (got <= 0) return text;
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    ADD_FAILURE() << "somebody holds the log open";
    return text;
  }

 private:
  UniqueFd input_;
  UniqueFd output_;
  UniqueFd log_;
  LineBuffer lines_{control::kMaxMessageBytes};
};

const char* const kNodePrelude = R"(
import json, os, signal, socket, sys, time
link = socket.socket(fileno=int(os.environ['TFOS_AGENT_FD'])).makefile('rwb')
bootstrap = json.loads(link.readline())
payload = link.read(bootstrap['payload_bytes'])
def say(kind, **fields):
    link.write(json.dumps({'type': kind, **fields}).encode() + b'\n')
    link.flush()
def hear():
    return json.loads(link.readline())
def forever():
    while True:
        signal.pause()
)";

class AgentCommandTest : public ::testing::Test {
 protected:
  json Bootstrap(const std::string& program) {
    return {
        {"type", "bootstrap"},
        {"protocol", 1},
        {"cluster_id", "0123456789abcdef"},
        {"keys",
         {{"join", kJoinKey},
          {"feed", kOtherKey},
          {"tensors", kOtherKey},
          {"parameters", kOtherKey}}},
        {"encrypt", "auto"},
        {"coordinator", {{"address", "127.0.0.1"}, {"port", coordinator_.port()}}},
        {"node_id", 3},
        {"executor_id", "7"},
        {"watch_pid", 0},
        {"python", {"/usr/bin/env", "python3", "-c", kNodePrelude + program}},
        {"cwd", "/"},
        {"environment", {"PATH=/usr/local/bin:/usr/bin:/bin", "GIVEN=caf\u00e9"}},
        {"advertised_address", ""},
        {"bind_address", "0.0.0.0"},
        {"ports", "0"},
        {"gpus", {{"assigned", json::array()}, {"count", 0}, {"fraction", 0.0}}},
        {"log_level", "INFO"},
        {"node", {{"anything", {1, 2}}}},
        {"tensorboard", json::array()},
        {"registration_timeout_ms", 60000},
        {"heartbeat_interval_ms", 50},
        {"heartbeat_timeout_ms", 10000},
        {"payload_bytes", 0},
    };
  }

  /// Starts an agent up to its registration.
  void Launch(const json& bootstrap, const std::string& payload = "") {
    agent_ = std::make_unique<LaunchedAgent>(bootstrap, payload);
    ASSERT_TRUE(coordinator_.Accept());
    registered_ = coordinator_.Await("register");
    agent_pidfd_ = Watch(registered_["agent_pid"]);
  }

  /// Starts an agent and its node, up to the node's `running`.
  void LaunchRunning(const json& bootstrap) {
    Launch(bootstrap);
    coordinator_.StartNode();
    node_pidfd_ = Watch(coordinator_.AwaitState("running")["pid"]);
  }
  void RunProgram(const std::string& program) { LaunchRunning(Bootstrap(program)); }

  /// No descriptor: it has ended already.
  static UniqueFd Watch(const json& pid) {
    auto pidfd = OpenPidfd(pid.get<pid_t>());
    return pidfd.ok() ? std::move(pidfd).value() : UniqueFd();
  }
  static bool Ends(const std::optional<UniqueFd>& watched) {
    if (!watched.has_value()) return false;  // It never began.
    return !watched->valid() || WaitForEnd(*watched, Deadline::After(kLong));
  }

  bool AgentEnds() { return Ends(agent_pidfd_); }
  bool NodeEnds() { return Ends(node_pidfd_); }
  void ExpectEnd() {
    EXPECT_TRUE(NodeEnds());
    EXPECT_TRUE(AgentEnds());
  }

  /// Ends the feed of a node that then is done.
  void EndFeed() {
    coordinator_.Send({{"type", "end_feed"}});
    coordinator_.Await("done");
    EXPECT_TRUE(AgentEnds());
  }

  /// What the coordinator is told of the node's failure.
  std::string FailureMessage() { return coordinator_.Await("failed")["failure"]["message"]; }

  /// What the agent answers to a question of people.
  json Ask(int number, const std::string& about, int after, int wait_ms) {
    coordinator_.Send({{"type", "question"},
                       {"number", number},
                       {"about", about},
                       {"after", after},
                       {"lines", 5},
                       {"wait_ms", wait_ms}});
    return coordinator_.Await("answer");
  }

  TestCoordinator coordinator_;
  std::unique_ptr<LaunchedAgent> agent_;
  json registered_;
  std::optional<UniqueFd> agent_pidfd_;
  std::optional<UniqueFd> node_pidfd_;
};

}  // namespace tfos::cli

#endif  // TFOS_CLI_AGENT_TESTS_AGENT_COMMAND_FIXTURE_H_
