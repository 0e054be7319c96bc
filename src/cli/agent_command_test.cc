// Runs `tfos agent` as a launch task does, against a coordinator of the test's own, with small
// programs as nodes. What must end is watched through pidfds.

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

namespace tfos::cli {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using nlohmann::json;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kLong(30);

const char* const kJoinKey = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const char* const kOtherKey = "ffeeddccbbaa99887766554433221100ffeeddccbbaa99887766554433221100";

bool Readable(int fd, Deadline deadline) {
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

  /// The next message; null when the connection has ended.
  json Next() {
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

TEST_F(AgentCommandTest, ANodeThatReturnsIsDone) {
  json bootstrap = Bootstrap(R"(
assert payload == b'pay\nload', payload
assert os.environb[b'GIVEN'] == b'caf\xe9' and 'HOME' not in os.environ, os.environ
assert os.getcwd() == '/' and bootstrap['node'] == {'anything': [1, 2]}
assert bootstrap['job_name'] == 'worker' and bootstrap['encrypt'] == 'auto'
assert sorted(bootstrap['keys']) == ['feed', 'parameters', 'tensors']
assert 'token' not in bootstrap
port = socket.socket(fileno=bootstrap['port_fd'])
assert port.getsockname()[1] == bootstrap['port']
print('to the log', flush=True)
say('state', state='running', feed={'socket': 'tfos-x', 'port': 4000})
say('metrics', metrics={'rows': 12, 'loss': 0.5})
say('feed_terminated')
say('done')
)");
  bootstrap["payload_bytes"] = 8;
  Launch(bootstrap, "pay\nload");
  EXPECT_EQ(registered_["node_id"], 3);
  EXPECT_EQ(registered_["executor_id"], "7");
  EXPECT_EQ(registered_["address"], "127.0.0.1");
  EXPECT_NE(registered_["port"], 0);
  coordinator_.StartNode();
  agent_->Await("formed");
  const json running = coordinator_.AwaitState("running");
  EXPECT_EQ(running["feed"]["port"], 4000);
  coordinator_.Await("feed_terminated");
  coordinator_.Await("done");
  EXPECT_TRUE(coordinator_.AwaitEnd());
  EXPECT_TRUE(AgentEnds());
  json last;
  for (json message = agent_->Next(); !message.is_null(); message = agent_->Next()) last = message;
  EXPECT_EQ(last["state"], "done");
  EXPECT_THAT(agent_->AwaitLog(), HasSubstr("to the log\n"));
}

TEST_F(AgentCommandTest, MetricsComeWithHeartbeats) {
  RunProgram("say('state', state='running'); say('metrics', metrics={'rows': 12}); forever()");
  const json heartbeat = coordinator_.Await([](const json& message) {
    return message["type"] == "heartbeat" && message["metrics"].contains("rows");
  });
  EXPECT_EQ(heartbeat["metrics"]["rows"], 12);
}

TEST_F(AgentCommandTest, AnExceptionIsToldWithTheLastLines) {
  RunProgram(R"(
say('state', state='running')
for i in range(60): print('line', i)
sys.stdout.flush()
say('failed', failure={'step': 'run the program', 'message': 'ValueError: x', 'traceback': 'T'})
sys.exit(1)
)");
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_EQ(failure["step"], "run the program");
  EXPECT_EQ(failure["message"], "ValueError: x");
  EXPECT_EQ(failure["traceback"], "T");
  EXPECT_EQ(failure["log_tail"].size(), 50U);
  EXPECT_EQ(failure["log_tail"].back(), "line 59");
  EXPECT_EQ(agent_->Await("failed")["failure"]["message"], "ValueError: x");
  EXPECT_TRUE(coordinator_.AwaitEnd()) << "only the first failure is told";
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, ACrashIsToldWithSignalAndLastLines) {
  RunProgram("say('state', state='running'); print('last words', flush=True); os.abort()");
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_THAT(failure["message"].get<std::string>(), HasSubstr("was killed by SIGABRT (signal 6)"));
  EXPECT_THAT(failure["log_tail"].get<std::vector<std::string>>(), Contains("last words"));
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, EndingWithoutDoneIsAFailure) {
  RunProgram("say('state', state='running')");
  EXPECT_THAT(coordinator_.Await("failed")["failure"]["message"].get<std::string>(),
              HasSubstr("exited with code 0"));
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, AProgramThatIsNotThereIsNamed) {
  json bootstrap = Bootstrap("");
  bootstrap["python"] = {"/no/such/python"};
  Launch(bootstrap);
  coordinator_.StartNode();
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_EQ(failure["step"], "start the node");
  EXPECT_THAT(failure["message"].get<std::string>(), HasSubstr("/no/such/python"));
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, ANodeThatDoesNotAnswerIsKilledAndNamed) {
  json bootstrap = Bootstrap(R"(
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say('pong')
say('metrics', metrics={'step': 120, 'loss': 0.5})
say('state', state='running')
for answer in range(3):
    assert hear() == {'type': 'ping'}
    say('pong')
os.kill(os.getpid(), signal.SIGSTOP)
)");
  bootstrap["answer_timeout_ms"] = 200;
  LaunchRunning(bootstrap);
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_EQ(failure["step"], "answer its agent");
  EXPECT_EQ(failure["lost"], true);
  const std::string message = failure["message"];
  EXPECT_THAT(message, HasSubstr("it is stopped (SIGSTOP"));
  EXPECT_THAT(message, HasSubstr("It was running, step=120."));
  EXPECT_THAT(message, HasSubstr("spark.tfos.node.answerTimeout"));
  EXPECT_TRUE(NodeEnds());
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, HowLongANodeHasNotAnsweredIsAMetric) {
  json bootstrap = Bootstrap("say('pong'); say('state', state='running'); hear(); forever()");
  bootstrap["answer_timeout_ms"] = 0;
  LaunchRunning(bootstrap);
  const json heartbeat = coordinator_.Await([](const json& message) {
    return message["type"] == "heartbeat" && message["metrics"].contains("seconds_without_answer");
  });
  EXPECT_EQ(heartbeat["metrics"]["seconds_without_answer"], 2);
}

TEST_F(AgentCommandTest, ANodeThatNeverSaysThatItAnswersIsNotAsked) {
  json bootstrap =
      Bootstrap("say('state', state='running'); assert hear()['type'] == 'end_feed'; say('done')");
  bootstrap["answer_timeout_ms"] = 1;
  LaunchRunning(bootstrap);
  for (int i = 0; i < 5; ++i) coordinator_.Await("heartbeat");
  coordinator_.Send({{"type", "end_feed"}});
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, TheNodeDiesWithItsAgent) {
  RunProgram("say('state', state='running'); forever()");
  ASSERT_EQ(::kill(registered_["agent_pid"].get<pid_t>(), SIGKILL), 0);
  EXPECT_TRUE(NodeEnds());
}

TEST_F(AgentCommandTest, AnAgentThatIsToldToEndTakesTheNodeAlong) {
  RunProgram("say('state', state='running'); forever()");
  ASSERT_EQ(::kill(registered_["agent_pid"].get<pid_t>(), SIGTERM), 0);
  coordinator_.Await("failed");
  EXPECT_TRUE(NodeEnds());
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, TheNodeEndsWithItsCoordinator) {
  RunProgram("say('state', state='running'); forever()");
  coordinator_.Die();
  EXPECT_THAT(agent_->Await("failed")["failure"]["message"].get<std::string>(),
              HasSubstr("lost the coordinator"));
  EXPECT_TRUE(NodeEnds());
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, TheNodeEndsWithItsExecutor) {
  auto executor = Subprocess::Start({.argv = {"/bin/sleep", "600"}});
  ASSERT_TRUE(executor.ok());
  json bootstrap = Bootstrap(
      "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('state', state='running'); forever()");
  bootstrap["watch_pid"] = (*executor)->pid();
  LaunchRunning(bootstrap);
  (*executor)->SignalGroup(SIGKILL);
  EXPECT_THAT(coordinator_.Await("failed")["failure"]["message"].get<std::string>(),
              HasSubstr("the Spark executor"));
  EXPECT_TRUE(NodeEnds());
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, AnExecutorThatIsGoneAlreadyStartsNothing) {
  auto executor = Subprocess::Start({.argv = {"/bin/true"}});
  ASSERT_TRUE(executor.ok());
  json bootstrap = Bootstrap("forever()");
  bootstrap["watch_pid"] = (*executor)->pid();
  ASSERT_TRUE((*executor)->Wait(Deadline::After(kLong)).ok());
  agent_ = std::make_unique<LaunchedAgent>(bootstrap);
  EXPECT_EQ(agent_->Await("failed")["failure"]["step"], "watch the executor");
  EXPECT_TRUE(agent_->AwaitEnd());
}

TEST_F(AgentCommandTest, TheNodeEndsWhenItsTaskIsKilled) {
  RunProgram("say('state', state='running'); forever()");
  agent_->CloseInput();
  EXPECT_THAT(coordinator_.Await("failed")["failure"]["message"].get<std::string>(),
              HasSubstr("Spark task"));
  EXPECT_TRUE(NodeEnds());
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, ATaskMayLeaveAsPlanned) {
  RunProgram("say('state', state='running'); hear(); say('done')");
  agent_->Write("{\"type\":\"detach\"}\n");
  agent_->CloseInput();
  coordinator_.Await("heartbeat");
  coordinator_.Send({{"type", "end_feed"}});
  agent_->AwaitState("draining");
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, AKilledTaskBeforeTheStartLeavesNothing) {
  Launch(Bootstrap("forever()"));
  agent_->CloseInput();
  coordinator_.Await("failed");
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, EndOfFeedIsRelayedHoweverEarlyItComes) {
  Launch(
      Bootstrap("assert hear()['type'] == 'end_feed'; say('state', state='running'); "
                "say('done')"));
  coordinator_.Send({{"type", "end_feed"}});
  coordinator_.StartNode();
  agent_->AwaitState("draining");
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, ALeavingExecutorIsAnnouncedHoweverEarlyThatComes) {
  Launch(
      Bootstrap("assert hear()['reason'] == 'first'; say('state', state='running'); "
                "assert hear()['reason'] == 'second'; say('done')"));
  coordinator_.Send({{"type", "leaving"}, {"node_id", 1}, {"reason", "first"}});
  coordinator_.StartNode();
  agent_->AwaitState("running");
  coordinator_.Send({{"type", "leaving"}, {"node_id", 0}, {"reason", "second"}});
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, StopEndsTheNodeAsDone) {
  RunProgram("say('state', state='running'); forever()");
  coordinator_.Send({{"type", "stop"}, {"reason", "another node failed"}, {"grace_ms", 20000}});
  EXPECT_EQ(agent_->AwaitState("draining")["detail"], "another node failed");
  coordinator_.Await("done");
  EXPECT_TRUE(NodeEnds());
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, StopTellsTheNodeWhyAndKillsAfterTheGrace) {
  RunProgram(R"(
signal.signal(signal.SIGTERM, signal.SIG_IGN)
say('state', state='running')
print('heard', hear()['reason'], flush=True)
forever()
)");
  coordinator_.Send({{"type", "stop"}, {"reason", "enough"}, {"grace_ms", 500}});
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
  EXPECT_THAT(agent_->AwaitLog(), HasSubstr("heard enough\n"));
}

TEST_F(AgentCommandTest, StopBeforeTheStartEndsTheAgent) {
  Launch(Bootstrap("forever()"));
  coordinator_.Send({{"type", "stop"}, {"reason", "never mind"}, {"grace_ms", 100}});
  EXPECT_TRUE(coordinator_.AwaitEnd());
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, GarbageFromTheNodeFailsIt) {
  RunProgram(
      "say('state', state='running'); link.write(b'\\x00\\xffgarbage\\n'); link.flush(); "
      "forever()");
  EXPECT_THAT(coordinator_.Await("failed")["failure"]["message"].get<std::string>(),
              HasSubstr("the node sent something other than messages"));
  EXPECT_TRUE(NodeEnds());
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, AProgramsOddMetricsNeverEndItsNode) {
  RunProgram(R"(
say('state', state='running')
for _ in range(2):
    say('metrics', metrics={'seed': 2**64 - 1, '': 1, 'list': [1], 'loss': 0.5})
say('state', state=7)
hear()
say('done')
)");
  const json heartbeat = coordinator_.Await([](const json& message) {
    return message["type"] == "heartbeat" && message["metrics"].contains("loss");
  });
  json metrics = heartbeat["metrics"];
  metrics.erase("cpu_seconds");  // Of its process, which the agent adds.
  metrics.erase("rss_bytes");
  EXPECT_EQ(metrics, json({{"loss", 0.5}, {"seed", 18446744073709551615.0}}));
  coordinator_.Send({{"type", "end_feed"}});
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
  const std::string log = agent_->AwaitLog();
  for (const std::string warning : {"metric '' must have a name", "metric 'list' must be a number",
                                    "'state' must be the name of a node state"}) {
    const std::size_t first = log.find(warning);
    EXPECT_NE(first, std::string::npos) << log;
    EXPECT_EQ(log.find(warning, first + 1), std::string::npos) << log;
  }
}

TEST_F(AgentCommandTest, GarbageFromTheCoordinatorEndsTheNode) {
  RunProgram("say('state', state='running'); forever()");
  coordinator_.SendText("]]]");
  agent_->Await("failed");
  EXPECT_TRUE(NodeEnds());
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, UnknownMessagesAreIgnored) {
  RunProgram("say('state', state='running'); say('news', x=1); hear(); say('done')");
  coordinator_.Send({{"type", "from the future"}});
  agent_->Write("{\"type\":\"what\"}\n");
  coordinator_.Send({{"type", "end_feed"}});
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, AGrandchildGoesWithTheNode) {
  RunProgram(R"(
import subprocess
child = subprocess.Popen(['/bin/sleep', '600'])
say('state', state='running', detail=str(child.pid))
hear()
say('done')
)");
  // `state` came before; the grandchild holds the log open, so the log's end is its end.
  coordinator_.Send({{"type", "end_feed"}});
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
  agent_->AwaitLog();
}

TEST_F(AgentCommandTest, ALogThatNobodyReadsAnyMoreHarmsNobody) {
  RunProgram(R"(
say('state', state='running')
hear()
for i in range(10000): print('x' * 100)
sys.stdout.flush()
say('done')
)");
  agent_->CloseLog();
  coordinator_.Send({{"type", "end_feed"}});
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, AnUnreachableCoordinatorIsExplained) {
  json bootstrap = Bootstrap("forever()");
  {
    const FakeCoordinator gone;
    bootstrap["coordinator"]["port"] = gone.port();
  }
  agent_ = std::make_unique<LaunchedAgent>(bootstrap);
  const std::string message = agent_->Await("failed")["failure"]["message"];
  EXPECT_THAT(message, HasSubstr("node 3 on host "));
  EXPECT_THAT(message, HasSubstr("can't reach the coordinator at 127.0.0.1:"));
  EXPECT_THAT(message, HasSubstr("Connection refused"));
  EXPECT_THAT(message, HasSubstr("spark.tfos.coordinator.advertisedAddress"));
  EXPECT_TRUE(agent_->AwaitEnd());
}

TEST_F(AgentCommandTest, ARefusedKeyIsExplained) {
  agent_ = std::make_unique<LaunchedAgent>(Bootstrap("forever()"));
  coordinator_.Decline();
  EXPECT_THAT(agent_->Await("failed")["failure"]["message"].get<std::string>(),
              HasSubstr("it belongs to another cluster"));
  EXPECT_TRUE(agent_->AwaitEnd());
}

TEST_F(AgentCommandTest, WhatTheHostLacksIsToldToTheCoordinator) {
  json bootstrap = Bootstrap("forever()");
  bootstrap["gpus"] = {{"assigned", {"0"}}, {"count", 2}, {"fraction", 0.0}};
  Launch(bootstrap);
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_EQ(failure["step"], "take GPUs");
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, GpusAreTakenBeforeItConnects) {
  // An `nvidia-smi` that says when it was asked, and a GPU that somebody else holds.
  std::string directory = ::testing::TempDir() + "agent_XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string uuid = "GPU-" + directory;
  const std::string asked = directory + "/asked";
  ASSERT_EQ(::mkfifo(asked.c_str(), 0600), 0);
  std::ofstream(directory + "/nvidia-smi") << "#!/bin/sh\necho '0, " << uuid << "'\n"
                                           << "echo asked >" << asked << "\n";
  ASSERT_EQ(::chmod((directory + "/nvidia-smi").c_str(), 0700), 0);
  const UniqueFd events(::open(asked.c_str(), O_RDWR | O_CLOEXEC));
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (directory + ":" + path).c_str(), 1);
  const control::GpuRequest one = {.assigned = {}, .count = 1, .fraction = 0.0};
  auto held = control::GpuLease::Take(one, {{.index = "0", .uuid = uuid}});
  ASSERT_TRUE(held.ok()) << held.status().ToString();

  json bootstrap = Bootstrap("say('state', state='running'); say('done')");
  bootstrap["gpus"] = {{"assigned", json::array()}, {"count", 1}, {"fraction", 0.0}};
  agent_ = std::make_unique<LaunchedAgent>(bootstrap);
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_TRUE(Readable(events.get(), Deadline::After(kLong)));
  EXPECT_FALSE(coordinator_.HasVisitor());
  held = Status(ErrorKind::kRetryLater, "given back");
  ASSERT_TRUE(coordinator_.Accept());
  EXPECT_EQ(coordinator_.Await("register")["gpus"], json({"0"}));
  coordinator_.StartNode();
  coordinator_.Await("done");
  std::filesystem::remove_all(directory);
}

TEST_F(AgentCommandTest, WhatTheHostLacksIsToldEvenWithoutACoordinator) {
  json bootstrap = Bootstrap("forever()");
  bootstrap["gpus"] = {{"assigned", {"0"}}, {"count", 2}, {"fraction", 0.0}};
  {
    const FakeCoordinator gone;
    bootstrap["coordinator"]["port"] = gone.port();
  }
  agent_ = std::make_unique<LaunchedAgent>(bootstrap);
  EXPECT_EQ(agent_->Await("failed")["failure"]["step"], "take GPUs");
  EXPECT_TRUE(agent_->AwaitEnd());
}

TEST_F(AgentCommandTest, SparksGpusAreRegisteredAndHandedOn) {
  json bootstrap = Bootstrap(
      "assert bootstrap['gpus'] == ['2']; say('state', state='running'); "
      "say('done')");
  bootstrap["gpus"] = {{"assigned", {"2"}}, {"count", 1}, {"fraction", 0.0}};
  Launch(bootstrap);
  EXPECT_EQ(registered_["gpus"], json({"2"}));
  coordinator_.StartNode();
  coordinator_.Await("done");
}

TEST_F(AgentCommandTest, ABadBootstrapFailsWithoutRepeatingAKey) {
  json bootstrap = Bootstrap("forever()");
  bootstrap.erase("python");
  agent_ = std::make_unique<LaunchedAgent>(bootstrap);
  const std::string message = agent_->Await("failed")["failure"]["message"];
  EXPECT_THAT(message, HasSubstr("python"));
  EXPECT_EQ(message.find(kJoinKey), std::string::npos);
  EXPECT_TRUE(agent_->AwaitEnd());
  EXPECT_EQ(agent_->AwaitLog().find(kJoinKey), std::string::npos);
}

TEST_F(AgentCommandTest, TensorBoardOutlivesTheProgramUntilTheStop) {
  json bootstrap = Bootstrap("say('state', state='running'); hear(); say('done')");
  bootstrap["tensorboard"] = {"python3", "-m", "http.server", "--bind", "127.0.0.1", "PORT"};
  Launch(bootstrap);
  coordinator_.StartNode(/*tensorboard=*/true);
  const json listening = coordinator_.Await([](const json& message) {
    return message["type"] == "state" && !message["tensorboard"].is_null();
  });
  EXPECT_NE(listening["tensorboard"]["port"], 0);
  const UniqueFd tensorboard = Watch(listening["tensorboard"]["pid"]);
  coordinator_.Send({{"type", "end_feed"}});
  coordinator_.Await("done");
  coordinator_.Await("heartbeat");
  EXPECT_FALSE(WaitForEnd(tensorboard, Deadline::After({})));
  coordinator_.Send({{"type", "stop"}, {"reason", "over"}, {"grace_ms", 5000}});
  EXPECT_TRUE(WaitForEnd(tensorboard, Deadline::After(kLong)));
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, TensorBoardTakesThePortOfItsEnvironment) {
  std::optional<Result<control::HeldPort>> free_port = control::HeldPort::Bind({});
  ASSERT_TRUE(free_port->ok());
  const int port = (*free_port)->port();
  free_port.reset();
  json bootstrap = Bootstrap("say('state', state='running'); hear(); say('done')");
  bootstrap["environment"].push_back("TENSORBOARD_PORT=" + std::to_string(port));
  bootstrap["tensorboard"] = {"python3", "-m", "http.server", "--bind", "127.0.0.1", "PORT"};
  Launch(bootstrap);
  coordinator_.StartNode(/*tensorboard=*/true);
  const json listening = coordinator_.Await([](const json& message) {
    return message["type"] == "state" && !message["tensorboard"].is_null();
  });
  EXPECT_EQ(listening["tensorboard"]["port"], port);
  coordinator_.Send({{"type", "stop"}, {"reason", "over"}, {"grace_ms", 5000}});
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, ALaterStopShortensTheGraceOfAnEarlierOne) {
  RunProgram(
      "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('state', state='running'); forever()");
  coordinator_.Send({{"type", "stop"}, {"reason", "slowly"}, {"grace_ms", 3600'000}});
  coordinator_.Send({{"type", "stop"}, {"reason", "at once"}, {"grace_ms", 0}});
  EXPECT_TRUE(NodeEnds());
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, ATensorBoardThatFailsIsNoFailureOfTheNode) {
  json bootstrap = Bootstrap("say('state', state='running'); hear(); say('done')");
  bootstrap["tensorboard"] = {"/no/such/tensorboard"};
  Launch(bootstrap);
  coordinator_.StartNode(/*tensorboard=*/true);
  coordinator_.AwaitState("running");
  coordinator_.Send({{"type", "end_feed"}});
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
  EXPECT_THAT(agent_->AwaitLog(), HasSubstr("TensorBoard could not be started"));
}

}  // namespace
}  // namespace tfos::cli
