#include "seeds/control_corpus.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/format.h"
#include "base/profile/stack_profile.h"
#include "control/host/clusters/cluster_record.h"
#include "control/messages/agent_messages.h"
#include "control/messages/driver_messages.h"
#include "control/messages/launch_messages.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/shared_messages.h"

namespace tfos {
namespace {

using namespace tfos::control;  // NOLINT(google-build-using-namespace)

template <typename Message, std::size_t index = 0>
void AddMessages(const std::string& direction, std::vector<Seed>& seeds) {
  if constexpr (index < std::variant_size_v<Message>) {
    using Alternative = std::variant_alternative_t<index, Message>;
    if constexpr (!std::is_same_v<Alternative, UnknownMessage>) {
      seeds.push_back({"control_message", direction + "_" + std::string(Alternative::kType),
                       SerializeMessage(Alternative{})});
    }
    AddMessages<Message, index + 1>(direction, seeds);
  }
}

/// A line of a script for roster_fuzz.
template <typename Message>
std::string Says(std::string_view who, const Message& message) {
  return fmt::format("{}{}\n", who, SerializeMessage(message));
}

/// The four nodes of roster_fuzz come and begin.
std::string Begin() {
  std::string script;
  for (int node_id = 0; node_id < 4; ++node_id) {
    Register registration;
    registration.node_id = node_id;
    registration.host = "h";
    registration.address = "10.0.0.1";
    registration.port = 1000 + node_id;
    registration.agent_pid = 1;
    script += Says(std::to_string(node_id), registration);
  }
  for (int node_id = 0; node_id < 4; ++node_id) {
    StateReport running;
    running.state = NodeState::kRunning;
    running.pid = 2;
    if (node_id > 0) running.feed = FeedEndpoint{.socket = "tfos-x", .port = 2000 + node_id};
    script += Says(std::to_string(node_id), running);
  }
  return script;
}

std::string Steps() {
  std::string script = Begin();
  for (const bool ended : {false, true}) {
    for (int node_id = 1; node_id < 4; ++node_id) {
      StepReport report;
      report.queue = "input";
      report.full_batches = 3 + node_id;
      report.ended = ended;
      report.batches = ended ? 4 + node_id : 0;
      report.rows = ended ? 35 + 10 * node_id : 0;
      report.passable_rows = ended ? 10 : 0;
      report.batch_rows = ended ? 10 : 0;
      script += Says(std::to_string(node_id), report);
    }
  }
  EndEpoch epoch;
  epoch.queue = "input";
  return script + Says("d", epoch) + "x3\n";
}

std::string End() {
  Heartbeat heartbeat;
  heartbeat.metrics = {{"loss", 0.5}, {"steps", std::int64_t{3}}, {"stage", std::string("two")}};
  std::string script = Begin() + Says("1", heartbeat) + "t3\n" + Says("d", EndFeed{}) +
                       Says("d", EndFeed{.at_once = true});
  for (int node_id = 1; node_id < 4; ++node_id) {
    script += Says(std::to_string(node_id), FeedTerminated{});
    script += Says(std::to_string(node_id), Done{}) + fmt::format("x{}\n", node_id);
  }
  return script + Says("d", Stop{}) + Says("0", Done{}) + "x0\n";
}

std::string Fail() {
  FailureMessage failed;
  failed.failure.step = "main";
  failed.failure.message = "it failed";
  failed.failure.traceback = "line 1";
  NodeLeaving leaving;
  leaving.node_id = 3;
  return Begin() + Says("d", leaving) + "x3\n" + Says("1", failed) + Says("2", failed) + "t6\n" +
         "x0\nx1\nx2\n";
}

/// What a member says when its generation has ended.
GroupReady ReadyFor(int generation, bool admits) {
  GroupReady ready;
  ready.generation = generation;
  ready.committed = 3;
  ready.admits = admits;
  return ready;
}

/// Node 3 is lost, and the others go on without it.
std::string GoOn() {
  std::string script = "e\n" + Begin() + "x3\n";
  for (int node_id = 1; node_id < 3; ++node_id) {
    script += Says(std::to_string(node_id), ReadyFor(1, false));
  }
  GroupReady leaves = ReadyFor(2, false);
  leaves.leaves = true;
  return script + Says("1", leaves) + Says("2", Done{}) + "x2\n";
}

/// Nodes 2 and 3 are lost. Another one comes in place of node 3, and the two train.
std::string Join() {
  Register registration;
  registration.node_id = 3;
  registration.host = "other";
  registration.address = "10.0.0.9";
  GroupReady lacks = ReadyFor(0, false);
  lacks.committed = 0;
  lacks.lacks = 2;
  return "l\n" + Begin() + "x2\nx3\n" + Says("1", ReadyFor(1, true)) + "t4\n" +
         Says("3", registration) + Says("3", lacks) + "t4\n" + Says("1", ReadyFor(2, true)) +
         "t6\n";
}

/// The parameter server is lost twice, and comes again once.
std::string Return() {
  Register registration;
  registration.node_id = 0;
  registration.host = "other";
  registration.address = "10.0.0.9";
  StateReport running;
  running.state = NodeState::kRunning;
  return "r\n" + Begin() + "x0\nt4\n" + Says("0", registration) + Says("0", running) + "x0\nt6\n";
}

/// A frame of a WebSocket, masked with zeros.
std::string Frame(char opcode, std::string_view text) {
  std::string frame = {static_cast<char>(0x80 | opcode), static_cast<char>(0xfe),
                       static_cast<char>(text.size() >> 8), static_cast<char>(text.size() & 0xff)};
  return frame.append(4, '\0').append(text);
}

}  // namespace

std::vector<Seed> ControlSeeds() {
  std::vector<Seed> seeds;
  AddMessages<DriverMessage>("driver", seeds);
  AddMessages<CoordinatorEvent>("event", seeds);
  AddMessages<AgentMessage>("agent", seeds);
  AddMessages<AgentCommand>("command", seeds);
  AddMessages<LaunchMessage>("launch", seeds);
  AddMessages<LaunchEvent>("launch_event", seeds);
  AddMessages<NodeCommand>("node_command", seeds);
  AddMessages<NodeMessage>("node", seeds);
  ClusterRecord record;
  record.cluster_id = "0123456789abcdef";
  record.endpoint = {.address = "127.0.0.1", .port = 41234};
  seeds.push_back({"operate", "record", record.Serialize()});
  seeds.push_back({"operate", "output", "node=1&after=17&lines=10&wait_ms=500"});
  seeds.push_back({"operate", "stop", "by=alice@host-a&timeout_ms=60000"});
  seeds.push_back(
      {"operate", "thread", "12 (a) b) S 1 12 12 0 -1 4194560 1 2 3 4 250 50 7 8 20 0"});
  seeds.push_back({"operate", "gpus", "0, 50, 1024\n1, [N/A], 3072\n"});
  StackProfileBuilder profile;
  const int thread = profile.CallOf(-1, profile.FrameOf({.name = "MainThread", .file = ""}));
  profile.AddTime(profile.CallOf(thread, profile.FrameOf({.name = "f", .file = "a.py", .line = 3})),
                  600);
  profile.profile().counters["step"] = 3;
  seeds.push_back({"operate", "profile", profile.Take().Serialize()});
  seeds.push_back({"roster", "steps", Steps()});
  seeds.push_back({"roster", "end", End()});
  seeds.push_back({"roster", "failure", Fail()});
  seeds.push_back({"roster", "elastic", GoOn()});
  seeds.push_back({"roster", "joining", Join()});
  seeds.push_back({"roster", "returning", Return()});
  const std::string heartbeat = SerializeMessage(Heartbeat{});
  seeds.push_back(
      {"control_server", "agent",
       std::string(1, '\0') + Frame(1, heartbeat) + Frame(9, "ping") + Frame(8, {"\x03\xe8", 2})});
  seeds.push_back({"control_server", "asker",
                   "\x01GET /v1/status HTTP/1.1\r\n\r\nGET /v1/failure?wait_ms=10 HTTP/1.1\r\n"
                   "Connection: close\r\n\r\n"});
  seeds.push_back({"control_server", "operator",
                   "\x04POST /v1/stop?by=alice@host-a HTTP/1.1\r\n\r\nGET /v1/output?node=0 "
                   "HTTP/1.1\r\nConnection: close\r\n\r\n"});
  seeds.push_back({"control_server", "browser",
                   "\x02"
                   "Cookie: a=b\r\nContent-Length: 0\r\n\r\n"});
  seeds.push_back(
      {"control_server", "tunnel", "\x03HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"});
  return seeds;
}

}  // namespace tfos
