#include "seeds/hostile_corpus.h"

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "control/messages/agent_messages.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"
#include "control/messages/parts/shared_messages.h"
#include "control/messages/status_messages.h"
#include "parameter_server/wire/protocol.h"

namespace tfos {
namespace {

using namespace tfos::control;  // NOLINT(google-build-using-namespace)

template <typename Message>
std::string Line(const Message& message) {
  return SerializeMessage(message) + "\n";
}

/// What the coordinator says while a cluster trains.
std::string Training() {
  StepTickets tickets;
  tickets.queue = "input";
  tickets.epoch = 1;
  tickets.granted = 5;
  tickets.missing = {"worker:1"};
  std::string script = Line(tickets);
  tickets.final = true;
  tickets.passes = {{.from = 1,
                     .to = 2,
                     .rows = 3,
                     .address = "10.0.0.1",
                     .feed = {.socket = "tfos-x", .port = 4000}}};
  return script + Line(tickets) + Line(EndEpoch{.queue = "input", .epoch = 1}) +
         Line(EndEpoch{.queue = "input", .epoch = 7});
}

/// What it says when nodes are lost.
std::string Losing() {
  const FormedGroup group{.generation = 1,
                          .committed = 9,
                          .members = {{.rank = 0, .name = "worker:0", .address = "h", .port = 1},
                                      {.rank = 2, .name = "worker:2", .address = "h", .port = 2}}};
  return Line(NodeLeaving{.node_id = 2, .reason = "its host is to be shut down"}) +
         Line(Regroup{.generation = 1, .reason = "worker:1 is lost"}) + Line(group) +
         Line(Regroup{.generation = 2, .reason = "worker:2 is lost"});
}

/// What it says when others come in their place, or none can come any more.
std::string Joining() {
  const FormedGroup group{.generation = 3,
                          .committed = 12,
                          .members = {{.rank = 0, .name = "worker:0", .address = "h", .port = 1},
                                      {.rank = 1, .name = "worker:1", .address = "h", .port = 3}},
                          .admits = true};
  return Line(Meet{.reason = "worker:1 waits to join"}) + Line(group) +
         Line(NoGroup{.reason = "the cluster is stopping"});
}

void Agents(std::vector<Seed>& seeds) {
  StartNode start;
  start.job_name = "chief";
  start.cluster_spec = {{"chief", {"h:1"}}, {"worker", {"h:2", "h:3"}}};
  start.nodes.resize(2);
  start.tensorboard = true;
  seeds.push_back({"agent", "before_the_start", Byte(0) + Losing()});
  seeds.push_back({"agent", "training", Byte(1) + Training() + Line(EndFeed{})});
  seeds.push_back({"agent", "joining", Byte(1) + Losing() + Joining()});
  seeds.push_back(
      {"agent", "stop", Byte(1) + Line(Stop{.reason = "why", .grace = std::chrono::seconds(3)})});
  seeds.push_back({"agent", "refused", Byte(1) + Line(Refused{.message = "it is too late"})});
  seeds.push_back({"agent", "tensorboard",
                   Byte(0) + Line(start) + Line(OpenTunnel{.number = 1}) + Line(OpenTunnel{})});
  const std::string stop = Line(Stop{.reason = "why"});
  seeds.push_back({"agent", "frames",
                   Byte(2) + "\x89\x02hi" + "\x81" + Byte(static_cast<int>(stop.size())) + stop +
                       "\x88" + Byte(2) + "\x03\xe8"});
  seeds.push_back(
      {"agent", "declined", Byte(3) + "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"});
  seeds.push_back({"agent", "another_answer",
                   Byte(3) +
                       "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: "
                       "Upgrade\r\nSec-WebSocket-Accept: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"});
}

void Nodes(std::vector<Seed>& seeds) {
  seeds.push_back({"node_link", "training", Byte(0) + Training()});
  seeds.push_back({"node_link", "losing", Byte(1) + Losing() + Training()});
  seeds.push_back({"node_link", "joining", Byte(0) + Losing() + Joining()});
  seeds.push_back(
      {"node_link", "feed_ends",
       Byte(0) + Line(Ping{}) + Line(EndFeed{.at_once = true}) + Line(Stop{.reason = "why"})});
}

void Tasks(std::vector<Seed>& seeds) {
  const auto answer = [](std::string_view body) {
    return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", body.size(), body);
  };
  Failure failure;
  failure.node_id = 1;
  failure.job_name = "worker";
  failure.host = "h";
  failure.report.step = "main";
  failure.report.message = "it failed";
  failure.report.log_tail = {"one", "two"};
  ClusterStatus status;
  status.cluster_id = "c1";
  status.failure = failure;
  status.nodes.resize(2);
  seeds.push_back({"ask", "failure", answer(SerializeFailure(failure))});
  seeds.push_back({"ask", "status", answer(SerializeStatus(status))});
  seeds.push_back({"ask", "chunks",
                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"});
  seeds.push_back({"ask", "to_the_end", "HTTP/1.0 200 OK\r\n\r\n{\"nodes\":[]}"});
}

void ParameterServers(std::vector<Seed>& seeds) {
  using namespace parameter_server;  // NOLINT(google-build-using-namespace)
  const auto values = [](std::uint8_t part) {
    const Range range{.part = part, .data_follow = true, .begin = 0, .bytes = 256, .version = 5};
    return Encode(MessageType::kValues, range) + std::string(256, 'v');
  };
  const std::string opened = Encode(Opened{.version = 4});
  const std::string committed = EncodeVersion(MessageType::kCommitted, 5);
  const std::string started = EncodeVersion(MessageType::kStarted, 7);
  const std::string waiting = Encode(Waiting{.clock = 5, .other_clock = 2, .name = "worker:1"});
  const std::string failed = Encode(Failed{.kind = ErrorKind::kBadInput, .text = "no"});
  // The first byte: TCP; a push; a read, a write and a start.
  seeds.push_back({"parameter_link", "memory", Byte(0) + opened});
  seeds.push_back(
      {"parameter_link", "memory_all", Byte(30) + opened + committed + values(1) + started});
  seeds.push_back({"parameter_link", "tcp", Byte(1) + waiting + opened + values(0)});
  seeds.push_back({"parameter_link", "tcp_all",
                   Byte(31) + opened + waiting + committed + values(0) + values(1) + started});
  seeds.push_back({"parameter_link", "failed", Byte(3) + opened + failed});
}

void SharedMemories(std::vector<Seed>& seeds) {
  struct Write {
    std::uint16_t offset;
    std::uint8_t value;
  };
  const auto writes = [](int way, std::initializer_list<Write> all) {
    std::string text = Byte(way);
    for (const Write& write : all) {
      text += Byte(write.offset & 0xff) + Byte(write.offset >> 8) + Byte(write.value);
    }
    return text;
  };
  // The fields of a page: `events` at 0, `begun` at 8, three counters of chunks at 16, `left` at
  // 40, `failed` at 44, `waiting_in` at 48, `waits_for` at 56, descriptions of 284 bytes at 64.
  constexpr std::uint16_t kDescription = 64 + 3 * 284;
  seeds.push_back({"host_memory", "nothing", writes(0, {})});
  seeds.push_back({"host_memory", "chunks", writes(1, {{16, 1}, {16, 0xff}, {24, 0}, {24, 0xff}})});
  seeds.push_back({"host_memory", "description",
                   writes(2, {{kDescription, 0xff},
                              {kDescription + 3, 0xff},
                              {kDescription + 3, 0},
                              {kDescription + 4 + 8, 9},
                              {kDescription + 4 + 8, 2}})});
  seeds.push_back({"host_memory", "begun", writes(3, {{8, 0}, {8, 9}, {8, 4}, {15, 0xff}})});
  seeds.push_back(
      {"host_memory", "left", writes(1, {{40, 1}, {44, 1}, {44, 0}, {48, 4}, {56, 7}})});
}

}  // namespace

std::vector<Seed> HostileSeeds() {
  std::vector<Seed> seeds;
  Agents(seeds);
  Nodes(seeds);
  Tasks(seeds);
  ParameterServers(seeds);
  SharedMemories(seeds);
  return seeds;
}

}  // namespace tfos
