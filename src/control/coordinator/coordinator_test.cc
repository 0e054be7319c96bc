#include "control/coordinator/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <optional>
#include <string>
#include <utility>

#include "control/coordinator/coordinator_fixture.h"
#include "net/listen.h"

namespace tfos::control {
namespace {

TEST_F(CoordinatorTest, FormsRunsAndEndsACluster) {
  Start();
  RawClient ps = Agent(0);
  EXPECT_EQ(WaitForState(0, "expected")["job_name"], "ps");
  EXPECT_EQ(WaitForState(0, "registered")["host"], "h");
  RawClient worker = Agent(1);
  EXPECT_EQ(WaitFor("formed")["nodes"].size(), 2u);
  EXPECT_EQ(Message(ps)["job_name"], "ps");
  const json start = Message(worker);
  EXPECT_EQ(start["type"], "start");
  EXPECT_EQ(start["job_name"], "worker");
  EXPECT_EQ(start["tensorboard"], true);
  EXPECT_EQ(start["num_workers"], 1);
  EXPECT_EQ(start["cluster_spec"],
            json({{"ps", {"10.0.0.0:2222"}}, {"worker", {"10.0.0.1:2222"}}}));

  ps.SendText(R"({"type":"state","state":"running","pid":9})");
  EXPECT_EQ(WaitForState(0, "running")["pid"], 9);
  worker.SendText(R"({"type":"state","state":"running"})");
  EXPECT_FALSE(WaitForState(1, "running").is_null());
  worker.SendText(R"({"type":"heartbeat","metrics":{"rows":5}})");
  EXPECT_EQ(WaitFor("metrics")["nodes"],
            json::array({{{"node_id", 1}, {"metrics", {{"rows", 5}}}}}));
  worker.SendText(R"({"type":"feed_terminated"})");
  EXPECT_EQ(WaitFor("feed_terminated")["node_id"], 1);

  Tell({{"type", "end_feed"}});
  EXPECT_EQ(Message(worker)["type"], "end_feed");
  worker.SendText(R"({"type":"done"})");
  Tell({{"type", "stop"}, {"reason", "shut down"}, {"grace_ms", 10}});
  const json stop = Message(ps);
  EXPECT_EQ(stop["type"], "stop");
  EXPECT_EQ(stop["grace_ms"], 10);
  // Done already, but its agent may have more to stop.
  EXPECT_EQ(Message(worker)["type"], "stop");
  worker.Close();
  ps.SendText(R"({"type":"done"})");
  ps.Close();
  EXPECT_FALSE(WaitFor("finished").is_null());
  Tell({{"type", "exit"}});
  EXPECT_EQ(ExitCode(), 0);
  EXPECT_FALSE(RawClient(port_).connected());
}

TEST_F(CoordinatorTest, AFailureReachesTheDriverThePollAndEveryOtherNode) {
  json message = StartMessage();
  message["stop_grace_ms"] = 120'000;
  Start(message);
  RawClient ps = Agent(0);
  RawClient worker = Agent(1);
  Message(ps);
  auto poll = std::async(std::launch::async, [port = port_] {
    return RawClient(port).Get("/v1/failure?wait_ms=10000", KeyOf(Purpose::kRead).ToHex());
  });
  worker.SendText(R"({"type":"failed","failure":{"step":"run map_fun","message":"ValueError: 7",)"
                  R"("traceback":"tb","log_tail":["l"]}})");
  const json failure = WaitFor("failed")["failure"];
  EXPECT_EQ(failure["message"], "ValueError: 7");
  EXPECT_EQ(failure["traceback"], "tb");
  EXPECT_EQ(failure["node_id"], 1);
  EXPECT_THAT(poll.get(), HasSubstr("ValueError: 7"));
  const json stop = Message(ps);
  EXPECT_EQ(stop["type"], "stop");
  EXPECT_THAT(stop["reason"], HasSubstr("worker:0 (node 1 on h) failed: ValueError: 7"));
  EXPECT_EQ(stop["grace_ms"], 120'000);
}

TEST_F(CoordinatorTest, AnErrorThatNamesAnotherNodeWaitsForNoHeartbeat) {
  json start = StartMessage();
  start["heartbeat_interval_ms"] = 60'000;
  start["heartbeat_timeout_ms"] = 120'000;
  Start(start);
  RawClient ps = Agent(0);
  RawClient worker = Agent(1);
  WaitFor("formed");
  worker.SendText(
      R"({"type":"failed","failure":{"step":"run map_fun","message":"ps:0 has ended"}})");
  ASSERT_FALSE(WaitForState(1, "failed").is_null());
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(WaitFor("failed")["failure"]["message"], "ps:0 has ended");
}

TEST_F(CoordinatorTest, ATakenPortIsToldWithWhatToDo) {
  const net::TcpListener other = net::ListenTcp("127.0.0.1", 0, 0).value();
  json start = StartMessage();
  start["ports"] = std::to_string(other.port);
  Tell(start);
  const json fatal = NextEvent();
  EXPECT_EQ(fatal["type"], "fatal");
  EXPECT_THAT(fatal["message"], HasSubstr("Give spark.tfos.coordinator.port a range"));
  EXPECT_EQ(ExitCode(), 1);
}

TEST_F(CoordinatorTest, AnAgentThatVanishesIsLost) {
  Start();
  RawClient ps = Agent(0);
  RawClient worker = Agent(1);
  WaitFor("formed");
  worker.Close();
  EXPECT_THAT(WaitFor("failed")["failure"]["message"], HasSubstr("worker:0 (node 1 on h) is lost"));
}

TEST_F(CoordinatorTest, AMissingNodeIsNamed) {
  json start = StartMessage();
  start["registration_timeout_ms"] = 1000;
  Start(start);
  RawClient ps = Agent(0);
  ASSERT_FALSE(WaitForState(0, "registered").is_null());
  clock_.Advance(std::chrono::seconds(1));
  const json failure = WaitFor("failed")["failure"];
  EXPECT_EQ(failure["step"], "start");
  EXPECT_EQ(failure["node_id"], -1);
  EXPECT_THAT(failure["message"], HasSubstr("worker:0 (node 1): no word from its agent"));
  EXPECT_EQ(Message(ps)["type"], "stop");
}

TEST_F(CoordinatorTest, ASilentAgentIsDisconnected) {
  json start = StartMessage();
  start["heartbeat_timeout_ms"] = 1000;
  Start(start);
  RawClient ps = Agent(0);
  ASSERT_FALSE(WaitForState(0, "registered").is_null());
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_THAT(WaitFor("failed")["failure"]["message"], HasSubstr("no heartbeat"));
  while (ps.ReadText().has_value()) {
  }
  EXPECT_FALSE(ps.connected());
}

TEST_F(CoordinatorTest, StrangersGetNothing) {
  ::testing::internal::CaptureStderr();
  Start();
  const std::string read = KeyOf(Purpose::kRead).ToHex();
  EXPECT_THAT(RawClient(port_).Get("/v1/status"), StartsWith("HTTP/1.1 401"));
  // Neither the token nor a key for something else opens what people may see.
  for (const std::string& key : {kToken, kOtherToken, read.substr(0, 63),
                                 KeyOf(Purpose::kJoin).ToHex(), KeyOf(Purpose::kFeed).ToHex(),
                                 KeyOf(Purpose::kAsk).ToHex(), KeyOf(Purpose::kScrape).ToHex()}) {
    EXPECT_THAT(RawClient(port_).Get("/v1/status", key), StartsWith("HTTP/1.1 401"));
    EXPECT_THAT(RawClient(port_).Upgrade("/v1/agent", key), StartsWith("HTTP/1.1 401"));
  }
  EXPECT_THAT(RawClient(port_).Get("/metrics", read), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(RawClient(port_).Upgrade("/v1/agent", read), StartsWith("HTTP/1.1 404"));
  for (const Purpose purpose : {Purpose::kFeed, Purpose::kAsk, Purpose::kRead, Purpose::kScrape}) {
    const RawClient agent(port_, {.protocol = kAgentProtocol, .key = KeyOf(purpose)}, {});
    EXPECT_FALSE(agent.connected());
  }
  // The key that people send over HTTP must not let a listener answer tasks.
  const RawClient asker(port_, {.protocol = kAskProtocol, .key = KeyOf(Purpose::kRead)}, {});
  EXPECT_FALSE(asker.connected());
  EXPECT_THAT(RawClient(port_).Get("/v1/status", read), StartsWith("HTTP/1.1 200"));
  Tell({{"type", "exit"}});
  EXPECT_EQ(ExitCode(), 0);
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("does not have the key for what it asks for"));
  EXPECT_THAT(log, HasSubstr("does not know the cluster's key"));
  EXPECT_THAT(log, ::testing::Not(HasSubstr(kToken)));
  EXPECT_THAT(log, ::testing::Not(HasSubstr(read)));
  EXPECT_THAT(log, ::testing::Not(HasSubstr(kOtherToken)));
}

TEST_F(CoordinatorTest, GarbageEndsItsConnectionOnlyAndIsLoggedOnce) {
  ::testing::internal::CaptureStderr();
  Start();
  RawClient good = Agent(0);
  RawClient noise(port_);
  noise.Send(std::string(300, '\x01') + "\r\n\r\n");
  noise.ReadAll();
  RawClient endless(port_);
  endless.Send("GET / HTTP/1.1\r\nX: " + std::string(100'000, 'x'));
  endless.ReadAll();
  RawClient no_json = SilentAgent(1);
  no_json.SendText("{garbage}");
  no_json.SendText("{garbage}");
  EXPECT_FALSE(no_json.ReadText().has_value());
  RawClient oversized = SilentAgent(1);
  oversized.SendFrame(1, kMaxMessageBytes + 1, "x");
  EXPECT_FALSE(oversized.ReadText().has_value());
  RawClient truncated = SilentAgent(1);
  truncated.SendFrame(1, 100, "{");
  truncated.Close();
  RawClient early = SilentAgent(1);
  early.SendText(R"({"type":"done"})");
  EXPECT_FALSE(early.ReadText().has_value());

  RawClient other = Agent(1);
  EXPECT_EQ(WaitFor("formed")["nodes"].size(), 2u);
  EXPECT_EQ(Message(good)["type"], "start");
  Tell({{"type", "exit"}});
  EXPECT_EQ(ExitCode(), 0);
  const std::string log = ::testing::internal::GetCapturedStderr();
  const std::size_t first = log.find("the message is not a JSON object");
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find("the message is not a JSON object", first + 1), std::string::npos) << log;
}

TEST_F(CoordinatorTest, ABadRegistrationIsRefusedWithTheReason) {
  Start();
  RawClient first = Agent(0);
  WaitForState(0, "registered");
  RawClient second = Agent(2);
  const json refused = Message(second);
  EXPECT_EQ(refused["type"], "refused");
  EXPECT_THAT(refused["message"], HasSubstr("there is no node 2"));
  EXPECT_FALSE(second.ReadText().has_value());
  RawClient other = Agent(1);
  EXPECT_FALSE(WaitFor("formed").is_null());
}

// Covers: task retry / starting
// Covers: speculative task / starting
TEST_F(CoordinatorTest, ASecondAttemptStandsByUntilTheFirstOneIsLost) {
  Start();
  RawClient first = Agent(0);
  WaitForState(0, "registered");
  RawClient second = Agent(0);
  const json told = Message(second);
  EXPECT_EQ(told["type"], "stand_by");
  EXPECT_THAT(told["reason"], HasSubstr("ps:0 (node 0 on h) has registered before"));
  second.SendText(R"({"type":"heartbeat","metrics":{}})");
  second.SendText(R"({"type":"failed","failure":{"step":"s","message":"m"}})");
  RawClient other = Agent(1);
  EXPECT_FALSE(WaitFor("formed").is_null()) << "the copy's words count as the node's";
  EXPECT_EQ(Message(first)["type"], "start");
  first.Close();
  const json failed = WaitFor("failed")["failure"];
  EXPECT_EQ(failed["node_id"], 0);
  const json refused = Message(second);
  EXPECT_EQ(refused["type"], "refused");
  EXPECT_THAT(refused["message"], HasSubstr("its agent vanished"));
  EXPECT_FALSE(second.ReadText().has_value());
}

TEST_F(CoordinatorTest, AnotherComesInPlaceOfALostNodeWhoseAgentIsStillThere) {
  json start = StartMessage();
  start["roles"] = json::array({{{"job", "worker"}, {"count", 2}}});
  start["min_nodes"] = 1;
  start["late_nodes"] = true;
  Start(start);
  RawClient other = Agent(0);
  RawClient lost = Agent(1);
  EXPECT_EQ(Message(other)["joins"], false);
  EXPECT_EQ(Message(lost)["nodes"][1]["rank"], 1);
  lost.SendText(R"({"type":"failed","failure":{"step":"run the node","message":"m","lost":true}})");
  EXPECT_FALSE(WaitForState(1, "lost").is_null());
  EXPECT_EQ(Message(other)["type"], "regroup");
  RawClient again = Agent(1);
  EXPECT_EQ(Message(again)["joins"], true);
  // What the first one's agent says and does changes nothing for the second one.
  lost.SendText(R"({"type":"state","state":"running","detail":"the first"})");
  lost.Close();
  again.SendText(R"({"type":"state","state":"running","detail":"the second"})");
  EXPECT_EQ(WaitForState(1, "running")["detail"], "the second");
  const std::string ready = R"({"type":"ready","generation":1,"committed":3,"leaves":false,)"
                            R"("reason":"r","admits":true,"lacks":)";
  other.SendText(ready + "0}");
  EXPECT_EQ(Message(other)["type"], "group");
  again.SendText(ready + "2}");
  EXPECT_EQ(Message(other)["type"], "meet");
  Tell({{"type", "stop"}, {"reason", "enough"}, {"grace_ms", 10}});
  EXPECT_EQ(Message(again)["type"], "stop");
  EXPECT_EQ(Message(again)["reason"], "the cluster is stopping: enough");
}

TEST_F(CoordinatorTest, ASecondAttemptMayLeave) {
  Start();
  RawClient first = Agent(0);
  WaitForState(0, "registered");
  {
    RawClient second = Agent(0);
    EXPECT_EQ(Message(second)["type"], "stand_by");
  }
  RawClient third = Agent(0);
  EXPECT_EQ(Message(third)["type"], "stand_by");
  RawClient other = Agent(1);
  EXPECT_FALSE(WaitFor("formed").is_null());
  EXPECT_EQ(Message(first)["type"], "start");
}

TEST_F(CoordinatorTest, WhenTheDriverDiesAgentsAreToldAndTheCoordinatorEnds) {
  json message = StartMessage();
  message["stop_grace_ms"] = 1000;
  Start(message);
  RawClient ps = Agent(0);
  RawClient worker = Agent(1);
  WaitFor("formed");
  Message(ps);
  Message(worker);
  input_.Reset();
  output_.Reset();  // nor may writing to it be fatal
  for (RawClient* agent : {&ps, &worker}) {
    const json stop = Message(*agent);
    EXPECT_EQ(stop["type"], "stop");
    EXPECT_EQ(stop["reason"], "the driver died");
    EXPECT_EQ(stop["grace_ms"], 1000);
    agent->SendText(R"({"type":"done"})");
  }
  EXPECT_EQ(ExitCode(), 1);
}

TEST_F(CoordinatorTest, ADriverThatSaysWhatCannotBeReadHasNotDied) {
  Start();
  RawClient agent = Agent(0);
  WaitForState(0, "registered");
  TellText("{\"type\":\"end_epoch\"}\n");
  const json stop = Message(agent);
  EXPECT_EQ(stop["type"], "stop");
  EXPECT_THAT(stop["reason"].get<std::string>(), StartsWith("the driver sent a bad message: "));
  agent.SendText(R"({"type":"done"})");
  EXPECT_EQ(ExitCode(), 1);
}

TEST_F(CoordinatorTest, AnswersHttp) {
  Start();
  RawClient agent = Agent(0);
  WaitForState(0, "registered");
  RawClient client(port_);  // one connection for all requests
  const std::string read = KeyOf(Purpose::kRead).ToHex();
  const std::string status = client.Get("/v1/status", read);
  const json body = json::parse(status.substr(status.find("\r\n\r\n")));
  EXPECT_EQ(body["cluster_id"], "c1");
  EXPECT_EQ(body["nodes"][0]["state"], "registered");
  EXPECT_TRUE(body["failure"].is_null());
  EXPECT_THAT(client.Get("/metrics", KeyOf(Purpose::kScrape).ToHex()),
              HasSubstr("tfos_nodes{state=\"registered\"} 1\n"));
  EXPECT_THAT(client.Get("/v1/failure?wait_ms=1", read), StartsWith("HTTP/1.1 204"));
  EXPECT_THAT(client.Get("/v1/failure?wait_ms=x", read), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(client.Get("/nothing", read), StartsWith("HTTP/1.1 404"));
}

TEST_F(CoordinatorTest, TheOperatorMayChooseWhatOpensTheMetrics) {
  json start = StartMessage();
  start["scrape_token"] = "chosen-by-the-operator";
  Start(start);
  EXPECT_THAT(RawClient(port_).Get("/metrics", "chosen-by-the-operator"),
              StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(RawClient(port_).Get("/v1/status", "chosen-by-the-operator"),
              StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(RawClient(port_).Get("/metrics", KeyOf(Purpose::kScrape).ToHex()),
              StartsWith("HTTP/1.1 401"));
}

TEST_F(CoordinatorTest, AnswersTasksThatShakeHands) {
  Start();
  RawClient task(port_, {.protocol = kAskProtocol, .key = KeyOf(Purpose::kAsk)}, {});
  EXPECT_THAT(task.Get("/v1/status"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(task.Get("/v1/failure?wait_ms=1"), StartsWith("HTTP/1.1 204"));
  EXPECT_THAT(task.Upgrade("/v1/agent"), StartsWith("HTTP/1.1 404"));
  RawClient other(port_, {.protocol = kAskProtocol, .key = KeyOf(Purpose::kAsk)}, {});
  EXPECT_THAT(other.Get("/metrics"), StartsWith("HTTP/1.1 401"));
}

TEST_F(CoordinatorTest, AnAgentRegistersAsTheNodeOfItsHandshakeOnly) {
  Start();
  RawClient agent = SilentAgent(0);
  agent.SendText(Registration(1).dump());
  const json refused = Message(agent);
  EXPECT_EQ(refused["type"], "refused");
  EXPECT_THAT(std::string(refused["message"]), HasSubstr("its handshake was node 0's"));
  EXPECT_FALSE(agent.ReadText().has_value());
}

TEST_F(CoordinatorTest, SaysWhyItCannotStart) {
  json start = StartMessage();
  start["ports"] = "many";
  Tell(start);
  EXPECT_THAT(WaitFor("fatal")["message"], HasSubstr("'many' is neither a port nor a range"));
  EXPECT_EQ(ExitCode(), 1);
}

TEST_F(CoordinatorTest, SaysWhichPortIsTaken) {
  Start();
  json start = StartMessage();
  start["ports"] = std::to_string(port_);
  Pipe to;
  Pipe from;
  const std::string line = start.dump() + "\n";
  ASSERT_EQ(::write(to.write.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  EXPECT_EQ(RunCoordinator({.input = std::move(to.read), .output = std::move(from.write)}), 1);
  std::array<char, 4096> bytes{};
  ASSERT_GT(::read(from.read.get(), bytes.data(), bytes.size() - 1), 0);
  EXPECT_THAT(bytes.data(), HasSubstr("port " + std::to_string(port_)));
  EXPECT_THAT(bytes.data(), HasSubstr("Address already in use"));
}

TEST_F(CoordinatorTest, ADriverThatTalksNonsenseIsRefused) {
  TellText("{\"type\":\"start\"}\n");
  EXPECT_THAT(WaitFor("fatal")["message"], HasSubstr("field 'protocol' is missing"));
  EXPECT_EQ(ExitCode(), 1);
}

}  // namespace
}  // namespace tfos::control
