#include "control/coordinator/operations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "control/coordinator/coordinator_fixture.h"
#include "control/messages/agent_messages.h"

namespace tfos::control {
namespace {

json BodyOf(const std::string& answer) {
  return json::parse(answer.substr(answer.find("\r\n\r\n") + 4), nullptr, false);
}

class OperationsTest : public CoordinatorTest {
 protected:
  /// Somebody with the key for a purpose, who shakes hands.
  std::string Post(const std::string& target, const net::Protocol& protocol = kOperateProtocol,
                   Purpose purpose = Purpose::kOperate) const {
    return Request("POST", target, protocol, purpose);
  }
  std::string Get(const std::string& target, const net::Protocol& protocol = kOperateProtocol,
                  Purpose purpose = Purpose::kOperate) const {
    return Request("GET", target, protocol, purpose);
  }
  std::string Request(const std::string& method, const std::string& target,
                      const net::Protocol& protocol, Purpose purpose) const {
    RawClient client(port_, {.protocol = protocol, .key = KeyOf(purpose)}, {});
    client.Send(method + " " + target + " HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
    return client.ReadAll();
  }

  /// The next message of that type; null at the end.
  static json Await(RawClient& agent, const std::string& type) {
    while (true) {
      json message = Message(agent);
      if (message.is_null() || message["type"] == type) return message;
    }
  }

  static json AnswerTo(const json& question, const std::string& text) {
    return {{"type", "answer"}, {"number", question["number"]}, {"text", text},
            {"from", 0},        {"next", text.size()},          {"ended", false}};
  }
};

TEST_F(OperationsTest, AQuestionTravelsToTheAgentAndItsAnswerBack) {
  Start();
  RawClient ps = Agent(0);
  RawClient worker = Agent(1);
  ASSERT_FALSE(WaitFor("formed").is_null());
  auto asked = std::async(std::launch::async,
                          [this] { return Get("/v1/output?node=1&after=3&lines=10&wait_ms=20"); });
  const json question = Await(worker, "question");
  EXPECT_EQ(question["about"], "output");
  EXPECT_EQ(question["after"], 3);
  EXPECT_EQ(question["lines"], 10);
  EXPECT_EQ(question["wait_ms"], 20);
  ps.SendText(AnswerTo(question, "of the wrong node").dump());
  worker.SendText(AnswerTo(question, "line\n").dump());
  EXPECT_EQ(BodyOf(asked.get())["text"], "line\n");

  asked = std::async(std::launch::async, [this] { return Post("/v1/stacks?node=1"); });
  const json about_stacks = Await(worker, "question");
  EXPECT_EQ(about_stacks["about"], "stacks");
  worker.SendText(AnswerTo(about_stacks, "Thread 1\n").dump());
  EXPECT_EQ(BodyOf(asked.get())["text"], "Thread 1\n");

  // The key to read brings none that could harm the node.
  asked = std::async(std::launch::async, [this] {
    return RawClient(port_).Get("/v1/stacks?node=1&wait_ms=9&more=1",
                                KeyOf(Purpose::kRead).ToHex());
  });
  const json gentle = Await(worker, "question");
  EXPECT_EQ(gentle["about"], "gentle_stacks");
  EXPECT_EQ(gentle["wait_ms"], 0);
  json later = AnswerTo(gentle, "Ask again");
  later["refused"] = true;
  worker.SendText(later.dump());
  EXPECT_THAT(asked.get(), StartsWith("HTTP/1.1 409"));

  asked = std::async(std::launch::async,
                     [this] { return Post("/v1/profile?node=1&by=alice@a.1&wait_ms=20&more=1"); });
  const json about_profile = Await(worker, "question");
  EXPECT_EQ(about_profile["about"], "profile");
  EXPECT_EQ(about_profile["by"], "alice@a.1");
  EXPECT_EQ(about_profile["wait_ms"], 20);
  EXPECT_EQ(about_profile["more"], true);
  json refused = AnswerTo(about_profile, "bob@b.2 profiles this node");
  refused["refused"] = true;
  worker.SendText(refused.dump());
  const std::string refusal = asked.get();
  EXPECT_THAT(refusal, StartsWith("HTTP/1.1 409"));
  EXPECT_THAT(refusal, HasSubstr("bob@b.2 profiles this node"));
  EXPECT_THAT(Post("/v1/profile?node=1"), HasSubstr("by=NAME is missing"));
}

TEST_F(OperationsTest, ThoseWhoMayOnlyReadLeaveRoomForOperators) {
  Start();
  RawClient ps = Agent(0);
  RawClient worker = Agent(1);
  ASSERT_FALSE(WaitFor("formed").is_null());
  const std::string read = KeyOf(Purpose::kRead).ToHex();
  const std::string target = "/v1/output?node=1&after=0&wait_ms=10000";
  std::deque<RawClient> panels;
  json first;
  for (std::size_t i = 0; i < Operations::kMostOfReadersAtANode; ++i) {
    panels.emplace_back(port_).Send("GET " + target + " HTTP/1.1\r\nAuthorization: Bearer " + read +
                                    "\r\nConnection: close\r\n\r\n");
    const json question = Await(worker, "question");
    ASSERT_EQ(question["about"], "output");
    if (i == 0) first = question;
  }
  EXPECT_THAT(RawClient(port_).Get(target, read), StartsWith("HTTP/1.1 503"));
  // Another node has room.
  auto other = std::async(std::launch::async,
                          [&] { return RawClient(port_).Get("/v1/output?node=0", read); });
  ps.SendText(AnswerTo(Await(ps, "question"), "line of ps\n").dump());
  EXPECT_THAT(other.get(), HasSubstr("line of ps"));
  for (const auto& ask :
       std::vector<std::function<std::string()>>{[this] { return Get("/v1/output?node=1"); },
                                                 [this] { return Post("/v1/stacks?node=1"); }}) {
    auto asked = std::async(std::launch::async, ask);
    worker.SendText(AnswerTo(Await(worker, "question"), "of an operator\n").dump());
    EXPECT_THAT(asked.get(), HasSubstr("of an operator"));
  }
  // One panel has its answer, and the next one comes.
  worker.SendText(AnswerTo(first, "line\n").dump());
  EXPECT_THAT(panels.front().ReadAll(), HasSubstr("line"));
  auto next = std::async(std::launch::async, [&] { return RawClient(port_).Get(target, read); });
  worker.SendText(AnswerTo(Await(worker, "question"), "next\n").dump());
  EXPECT_THAT(next.get(), HasSubstr("next"));
}

TEST_F(OperationsTest, TheFailureOfANodeThatMakesNoStepsHasItsStacks) {
  json start = StartMessage();
  start["step_timeout_ms"] = 30'000;
  Start(start);
  RawClient ps = Agent(0);
  RawClient worker = Agent(1);
  ASSERT_FALSE(WaitFor("formed").is_null());
  worker.SendText(R"({"type":"state","state":"running","detail":"","pid":1,"feed":null})");
  worker.SendText(R"({"type":"heartbeat","metrics":{"step":7}})");
  ASSERT_FALSE(WaitFor("metrics").is_null());
  clock_.Advance(std::chrono::seconds(30));
  worker.SendText(R"({"type":"heartbeat","metrics":{}})");
  const json question = Await(worker, "question");
  EXPECT_EQ(question["about"], "stacks");
  const std::string lines = std::string(Operations::kMostOfStacks - 5, 'a') + "\nmore\n";
  worker.SendText(AnswerTo(question, "Thread 1\n" + lines).dump());
  const json failure = WaitFor("failed")["failure"];
  EXPECT_EQ(failure["node_id"], 1);
  EXPECT_THAT(failure["message"].get<std::string>(), HasSubstr("Its last step was 7"));
  EXPECT_EQ(failure["traceback"], "Thread 1\n...\n");
}

TEST_F(OperationsTest, EachKeyOpensItsPart) {
  Start();
  const std::string read = KeyOf(Purpose::kRead).ToHex();
  EXPECT_THAT(Get("/v1/status"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(Get("/metrics"), StartsWith("HTTP/1.1 401"));
  for (const std::string target : {"/v1/output?node=1", "/v1/stacks?node=1"}) {
    // Nobody's node is there yet, which those hear who may ask for it.
    EXPECT_THAT(Get(target), StartsWith("HTTP/1.1 409"));
    EXPECT_THAT(RawClient(port_).Get(target, read), StartsWith("HTTP/1.1 409"));
    EXPECT_THAT(Get(target, kAskProtocol, Purpose::kAsk), StartsWith("HTTP/1.1 401"));
    EXPECT_THAT(RawClient(port_).Get(target), StartsWith("HTTP/1.1 401"));
    EXPECT_THAT(RawClient(port_).Get(target, KeyOf(Purpose::kScrape).ToHex()),
                StartsWith("HTTP/1.1 401"));
  }
  for (const char* target : {"/v1/stop?by=alice", "/v1/stacks?node=1", "/v1/profile?node=1&by=a"}) {
    EXPECT_THAT(Post(target, kAskProtocol, Purpose::kAsk),
                ::testing::AnyOf(StartsWith("HTTP/1.1 401"), StartsWith("HTTP/1.1 405")));
    RawClient reader(port_);
    reader.Send(std::string("POST ") + target + " HTTP/1.1\r\nAuthorization: Bearer " + read +
                "\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(reader.ReadAll(), StartsWith("HTTP/1.1 405"));
    // The key is none over plain HTTP, where anybody may listen.
    RawClient bearer(port_);
    bearer.Send(std::string("POST ") + target + " HTTP/1.1\r\nAuthorization: Bearer " +
                KeyOf(Purpose::kOperate).ToHex() + "\r\nConnection: close\r\n\r\n");
    EXPECT_THAT(bearer.ReadAll(), StartsWith("HTTP/1.1 401"));
  }
  EXPECT_THAT(Post("/v1/stacks?node=1", kOperateProtocol, Purpose::kRead), ::testing::IsEmpty());
}

TEST_F(OperationsTest, TheDriverHearsWhoAsksForTheEnd) {
  Start();
  EXPECT_THAT(Post("/v1/stop"), HasSubstr("by=NAME is missing"));
  EXPECT_THAT(Post("/v1/stop?by=alice@host-a&timeout_ms=1500"), StartsWith("HTTP/1.1 200"));
  const json event = WaitFor("stop_asked");
  EXPECT_EQ(event["by"], "alice@host-a");
  EXPECT_EQ(event["timeout_ms"], 1500);
  EXPECT_THAT(Get("/v1/status"), HasSubstr(R"("stopped_by":"alice@host-a")"));
  Tell({{"type", "fail"}, {"node", -1}, {"step", "s"}, {"message", "m"}, {"traceback", ""}});
  ASSERT_FALSE(WaitFor("failed").is_null());
  EXPECT_THAT(Post("/v1/stop?by=alice"), HasSubstr("the cluster has failed"));
}

TEST_F(OperationsTest, TheDriverMayAskForTheEndItself) {
  Start();
  const json asked = {{"type", "stop_asked"}, {"by", "the driver program"}, {"timeout_ms", 1500}};
  Tell(asked);
  EXPECT_EQ(WaitFor("stop_asked"), asked);
  EXPECT_THAT(Get("/v1/status"), HasSubstr(R"("stopped_by":"the driver program")"));
  Tell({{"type", "fail"}, {"node", -1}, {"step", "s"}, {"message", "m"}, {"traceback", ""}});
  ASSERT_FALSE(WaitFor("failed").is_null());
  Tell(asked);
  Tell({{"type", "exit"}});
  EXPECT_TRUE(WaitFor("stop_asked").is_null()) << "it ends already";
}

TEST_F(OperationsTest, TheEndOfAnEndedNodesOutputIsKept) {
  Start();
  RawClient ps = Agent(0);
  RawClient worker = Agent(1);
  ASSERT_FALSE(WaitFor("formed").is_null());
  worker.SendText(R"({"type":"state","state":"running","detail":"","pid":1,"feed":null})");
  ASSERT_FALSE(WaitForState(1, "running").is_null());
  auto follows = std::async(std::launch::async,
                            [this] { return Get("/v1/output?node=1&after=103&wait_ms=10000"); });
  ASSERT_FALSE(Await(worker, "question").is_null());
  worker.SendText(
      R"({"type":"answer","number":-1,"text":"its end\n","from":100,"next":108,"ended":true})");
  const json told = BodyOf(follows.get());
  EXPECT_EQ(told["text"], " end\n") << "the rest is known to the one that follows";
  EXPECT_EQ(told["from"], 103);
  worker.SendText(R"({"type":"done"})");
  worker.Close();
  ASSERT_FALSE(WaitForState(1, "done").is_null());
  const json later = BodyOf(Get("/v1/output?node=1&after=104"));
  EXPECT_EQ(later["text"], "end\n");
  EXPECT_EQ(later["from"], 104);
  EXPECT_EQ(later["ended"], true);
  EXPECT_EQ(BodyOf(Get("/v1/output?node=1&lines=5"))["text"], "its end\n");
  EXPECT_THAT(Post("/v1/stacks?node=1"), HasSubstr("the node is done"));
}

TEST_F(OperationsTest, WhoeverAsksHearsThatTheAgentIsGone) {
  Start();
  RawClient ps = Agent(0);
  RawClient worker = Agent(1);
  ASSERT_FALSE(WaitFor("formed").is_null());
  auto asked = std::async(std::launch::async, [this] { return Post("/v1/stacks?node=1"); });
  ASSERT_FALSE(Await(worker, "question").is_null());
  worker.Close();
  EXPECT_THAT(asked.get(), StartsWith("HTTP/1.1 504"));
  EXPECT_THAT(Get("/v1/output?node=2"), HasSubstr("no node of this number; it has 2"));
  EXPECT_THAT(Get("/v1/output?node=x"), StartsWith("HTTP/1.1 400"));
  EXPECT_THAT(Post("/v1/restart"), StartsWith("HTTP/1.1 404"));
}

TEST(OperationQueryTest, ReadsWhatIsAskedAndNamesWhatIsWrong) {
  const auto query = OperationQuery::Parse("node=3&after=17&lines=4&by=a.b-c_d@h&timeout_ms=9");
  ASSERT_TRUE(query.ok());
  EXPECT_EQ(query->node_id, 3);
  EXPECT_EQ(query->after, 17);
  EXPECT_EQ(query->lines, 4);
  EXPECT_EQ(query->by, "a.b-c_d@h");
  EXPECT_EQ(query->timeout, std::chrono::milliseconds(9));
  EXPECT_EQ(OperationQuery::Parse("")->after, -1);
  for (const std::string wrong :
       {"node=-1", "node=", "node=1x", "after=-2", "lines=99999999999", "by=", "by=a b", "by=a%20b",
        "wait_ms=-1", "timeout_ms=99999999999", "more=2", "other=1", "&"}) {
    const auto refused = OperationQuery::Parse(wrong);
    ASSERT_FALSE(refused.ok()) << wrong;
    EXPECT_EQ(refused.status().kind(), ErrorKind::kBadInput);
  }
  const std::string longest(257, 'x');
  EXPECT_FALSE(OperationQuery::Parse("by=" + longest).ok());
}

}  // namespace
}  // namespace tfos::control
