#ifndef TFOS_CLI_AGENT_COMMAND_FIXTURE_H_
#define TFOS_CLI_AGENT_COMMAND_FIXTURE_H_

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/process/pidfd.h"
#include "base/process/subprocess.h"
#include "base/process/unique_fd.h"
#include "base/text/line_buffer.h"
#include "base/time/deadline.h"
#include "control/host/gpu_lease.h"
#include "control/host/held_port.h"
#include "control/messages/launch_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/protocols.h"
#include "net/handshake/handshake.h"

// What the tests of `tfos agent` share: it runs as a launch task runs it, against a coordinator of
// the test's own, with small programs as nodes. What must end is watched through pidfds.
namespace tfos::cli {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kLong(30);

const char* const kJoinKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const char* const kOtherKey = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

inline bool Readable(int fd, Deadline deadline) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  while (true) {
    const int ready = ::poll(&waiting, 1, deadline.PollMilliseconds());
    if (ready > 0) return true;
    if (deadline.passed()) return false;
  }
}

/// A coordinator with one agent, driven step by step by the test.
class FakeCoordinator {
 public:
  FakeCoordinator() : acceptor_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {}

  int port() const { return acceptor_.local_endpoint().port(); }

  /// True when somebody has connected and waits to be accepted.
  bool HasVisitor() { return Readable(acceptor_.native_handle(), Deadline::After({})); }

  /// True when the agent has connected with the right key.
  bool Accept() {
    auto connection = ShakeHands(kJoinKey);
    if (!connection.ok()) return false;
    EXPECT_EQ(connection->numbers.connecting, 3U);
    // Within a host, what follows goes through the socket as it is.
    EXPECT_EQ(connection->channel, net::Channel::kPlain);
    agent_.emplace(tcp::socket(io_, tcp::v4(), ::dup(connection->stream->fd())));
    beast::flat_buffer buffer;
    beast::http::request<beast::http::string_body> request;
    beast::http::read(agent_->next_layer().socket(), buffer, request);
    EXPECT_EQ(request.target(), "/v1/agent");
    EXPECT_EQ(request.count(beast::http::field::authorization), 0);
    agent_->accept(request);
    return true;
  }

  /// As the coordinator of another cluster, whose key is another one.
  void Decline() { EXPECT_FALSE(ShakeHands(kOtherKey).ok()); }

  /// The next message; null when the connection has ended. Without the end of the node's output,
  /// which nobody has asked for.
  json Next() {
    json message = NextOfAll();
    while (message.is_object() && message["type"] == "answer" && message["number"] == -1) {
      message = NextOfAll();
    }
    return message;
  }
  json NextOfAll() {
    beast::flat_buffer buffer;
    std::optional<boost::system::error_code> result;
    agent_->next_layer().expires_after(kLong);
    agent_->async_read(
        buffer, [&result](const boost::system::error_code& error, std::size_t) { result = error; });
    io_.restart();
    while (!result.has_value()) io_.run_one();
    EXPECT_NE(*result, beast::error::timeout) << "the agent said nothing";
    if (*result) return {};
    return json::parse(beast::buffers_to_string(buffer.data()));
  }

  /// The next message for which `wanted` holds, skipping others.
  json Await(const std::function<bool(const json&)>& wanted) {
    while (true) {
      json message = Next();
      if (message.is_null()) {
        ADD_FAILURE() << "the connection ended while a message was awaited";
        return json::object();
      }
      if (wanted(message)) return message;
    }
  }
  json Await(const std::string& type) {
    return Await([&type](const json& message) { return message["type"] == type; });
  }
  json AwaitState(const std::string& state) {
    return Await([&state](const json& message) {
      return message["type"] == "state" && message["state"] == state;
    });
  }

  /// True when nothing but heartbeats and states comes before the end of the connection.
  bool AwaitEnd() {
    while (true) {
      const json message = Next();
      if (message.is_null()) return true;
      if (message["type"] != "heartbeat" && message["type"] != "state") return false;
    }
  }

  void Send(const json& message) { agent_->write(asio::buffer(message.dump())); }
  void SendText(const std::string& text) { agent_->write(asio::buffer(text)); }

  void StartNode(bool tensorboard = false) {
    Send({{"type", "start"},
          {"job_name", "worker"},
          {"task_index", 0},
          {"cluster_spec", {{"worker", {"127.0.0.1:1"}}}},
          {"num_workers", 1},
          {"nodes", json::array()},
          {"tensorboard", tensorboard}});
  }

  /// As if the coordinator had been killed.
  void Die() { agent_->next_layer().close(); }

 private:
  Result<net::Connection> ShakeHands(const char* key) {
    if (!Readable(acceptor_.native_handle(), Deadline::After(kLong))) {
      return Status(ErrorKind::kRetryLater, "nobody has come");
    }
    tcp::socket socket = acceptor_.accept();
    socket.native_non_blocking(true);
    auto handshake = net::Handshake::Accepting(
        UniqueFd(socket.release()),
        {.protocol = control::kAgentProtocol, .key = *Secret::FromHex(key)}, {});
    TFOS_RETURN_IF_ERROR(net::Finish(handshake, {.deadline = Deadline::After(kLong)}));
    return handshake.Take();
  }

  asio::io_context io_;
  tcp::acceptor acceptor_;
  std::optional<beast::websocket::stream<beast::tcp_stream>> agent_;
};

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

  FakeCoordinator coordinator_;
  std::unique_ptr<LaunchedAgent> agent_;
  json registered_;
  std::optional<UniqueFd> agent_pidfd_;
  std::optional<UniqueFd> node_pidfd_;
};

}  // namespace tfos::cli

#endif  // TFOS_CLI_AGENT_COMMAND_FIXTURE_H_
