#ifndef TFOS_CONTROL_COORDINATOR_COORDINATOR_FIXTURE_H_
#define TFOS_CONTROL_COORDINATOR_COORDINATOR_FIXTURE_H_

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <future>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/crypto/purpose.h"
#include "base/logging.h"
#include "base/text/line_buffer.h"
#include "base/time/deadline.h"
#include "control/coordinator/coordinator.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/protocols.h"
#include "testing/raw_client.h"

// What the tests of the coordinator share.
namespace tfos::control {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using tfos::testing::RawClient;

const std::string kToken = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
const std::string kOtherToken(64, 'a');

Secret KeyOf(Purpose purpose) { return KeyFor(*Secret::FromHex(kToken), purpose); }
constexpr std::chrono::seconds kPatience(20);  // far beyond what anything here takes

struct Pipe {
  Pipe() {
    std::array<int, 2> fds{};
    EXPECT_EQ(::pipe2(fds.data(), O_CLOEXEC), 0);
    read.Reset(fds[0]);
    write.Reset(fds[1]);
  }
  UniqueFd read;
  UniqueFd write;
};

/// Stands still until the test's thread moves it; the coordinator's reads it.
class SharedClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(now_.load()); }
  void Advance(Duration by) { now_ = now_.load() + by; }

 private:
  std::atomic<Duration> now_ = Duration::zero();
};

/// A coordinator in a thread of its own, and the driver's ends of its pipes.
class CoordinatorTest : public ::testing::Test {
 protected:
  CoordinatorTest() : events_(std::size_t{64} << 20) {
    ::signal(SIGPIPE, SIG_IGN);
    SetUpLogging("coordinator test", "INFO");
    Pipe to;
    Pipe from;
    input_ = std::move(to.write);
    output_ = std::move(from.read);
    exit_code_ = std::async(std::launch::async, [this, in = std::move(to.read),
                                                 out = std::move(from.write)]() mutable {
      return RunCoordinator({.input = std::move(in), .output = std::move(out), .clock = &clock_});
    });
  }

  static json StartMessage() {
    return {
        {"type", "start"},
        {"protocol", 1},
        {"cluster_id", "c1"},
        {"token", kToken},
        {"encrypt", "auto"},
        {"bind_address", "127.0.0.1"},
        {"advertised_address", ""},
        {"ports", "0"},
        {"roles", json::array({{{"job", "ps"}, {"count", 1}}, {{"job", "worker"}, {"count", 1}}})},
        {"service_jobs", json::array({"ps"})},
        {"tensorboard_node", 1},
        {"registration_timeout_ms", 60'000},
        {"start_timeout_ms", 60'000},
        {"heartbeat_interval_ms", 20},
        {"heartbeat_timeout_ms", 60'000},
        {"log_level", "INFO"}};
  }

  void Tell(const json& message) { TellText(message.dump() + "\n"); }
  void TellText(const std::string& text) {
    ASSERT_EQ(::write(input_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }

  /// The next event; null at the end.
  json NextEvent() {
    const Deadline deadline = Deadline::After(kPatience);
    while (true) {
      auto line = events_.NextLine();
      if (!line.ok()) return {};
      if (line->has_value()) return json::parse(**line);
      pollfd readable = {.fd = output_.get(), .events = POLLIN, .revents = 0};
      std::array<char, 65536> bytes;
      if (::poll(&readable, 1, deadline.PollMilliseconds()) <= 0) return {};
      const ssize_t got = ::read(output_.get(), bytes.data(), bytes.size());
      if (got <= 0) return {};
      events_.Append({bytes.data(), static_cast<std::size_t>(got)});
    }
  }

  /// Skips events up to one of that type; null when there is none.
  json WaitFor(const std::string& type) {
    while (true) {
      json event = NextEvent();
      if (event.is_null() || event["type"] == type) return event;
    }
  }

  /// Skips events up to the one that a node has reached a state; null when there is none.
  json WaitForState(int node_id, const std::string& state) {
    while (true) {
      json event = WaitFor("node");
      if (event.is_null()) return event;
      if (event["node"]["node_id"] == node_id && event["node"]["state"] == state) {
        return event["node"];
      }
    }
  }

  void Start(const json& message = StartMessage()) {
    Tell(message);
    const json event = NextEvent();
    ASSERT_EQ(event["type"], "listening") << event;
    EXPECT_EQ(event["address"], "127.0.0.1");
    port_ = event["port"];
  }

  static json Registration(int node_id) {
    return {{"type", "register"},
            {"protocol", 1},
            {"node_id", node_id},
            {"host", "h"},
            {"port", 2222},
            {"tensor_port", 2223},
            {"address", "10.0.0." + std::to_string(node_id)},
            {"agent_pid", 7},
            {"executor_id", "0"},
            {"gpus", json::array()}};
  }

  /// An agent that has not said anything yet.
  RawClient SilentAgent(int node_id) const {
    RawClient agent(port_, {.protocol = kAgentProtocol, .key = KeyOf(Purpose::kJoin)},
                    {.connecting = static_cast<std::uint32_t>(node_id)});
    EXPECT_THAT(agent.Upgrade("/v1/agent"), StartsWith("HTTP/1.1 101"));
    return agent;
  }

  RawClient Agent(int node_id) const {
    RawClient agent = SilentAgent(node_id);
    agent.SendText(Registration(node_id).dump());
    return agent;
  }

  static json Message(RawClient& agent) {
    const auto text = agent.ReadText();
    return text.has_value() ? json::parse(*text) : json();
  }

  int ExitCode() {
    EXPECT_EQ(exit_code_.wait_for(kPatience), std::future_status::ready);
    return exit_code_.get();
  }

  ~CoordinatorTest() override {
    input_.Reset();
    if (exit_code_.valid()) exit_code_.wait();
  }

  SharedClock clock_;
  UniqueFd input_;
  UniqueFd output_;
  LineBuffer events_;
  std::future<int> exit_code_;
  std::uint16_t port_ = 0;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_COORDINATOR_FIXTURE_H_
