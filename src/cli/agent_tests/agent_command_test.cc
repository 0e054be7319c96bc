#include "cli/agent_tests/agent_command_fixture.h"

namespace tfos::cli {
namespace {

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

TEST_F(AgentCommandTest, PeopleGetTheNodesOutputAndItsStacks) {
  RunProgram(R"(
say('state', state='running')
print('first', flush=True)
while hear()['type'] != 'stacks': pass
say('stacks', text='Thread 1\n')
print('second', flush=True)
forever()
)");
  EXPECT_EQ(Ask(1, "output", 0, 10'000)["text"], "first\n");
  const json stacks = Ask(2, "stacks", -1, 0);
  EXPECT_EQ(stacks["number"], 2);
  EXPECT_THAT(stacks["text"].get<std::string>(), HasSubstr("Thread 1\n"));
  EXPECT_THAT(stacks["text"].get<std::string>(), HasSubstr(" s of CPU"));
  const json second = Ask(3, "output", 6, 10'000);
  EXPECT_EQ(second["text"], "second\n");
  EXPECT_EQ(second["next"], 13);
  EXPECT_EQ(Ask(4, "output", -1, 0)["text"], "first\nsecond\n");
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

/// A node that has written more than its agent takes while nobody reads the executor's log, and
/// goes on when the feed ends. The rest of what it writes stays in its pipe.
class StalledLogTest : public AgentCommandTest {
 protected:
  void RunUntilTheLogIsFull(const std::string& program) {
    Launch(Bootstrap(R"(
say('state', state='running')
sys.stdout.write(('x' * 1023 + '\n') * 300)
sys.stdout.flush()
while hear()['type'] != 'end_feed': pass
)" + program));
    agent_->FillLog();
    coordinator_.StartNode();
    // From then on the agent waits for the log.
    const int most_pending = 256 * 1024;
    for (int taken = 0; taken <= most_pending;) {
      const json answer = Ask(1, "output", taken, 10'000);
      ASSERT_TRUE(answer.contains("next")) << answer;
      taken = answer["next"];
    }
    coordinator_.Send({{"type", "end_feed"}});
  }
};

TEST_F(StalledLogTest, AnExceptionIsToldWithTheLastLines) {
  RunUntilTheLogIsFull(R"(
print('last line', flush=True)
say('failed', failure={'step': 'run the program', 'message': 'ValueError: x', 'traceback': 'T'})
sys.exit(1)
)");
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_EQ(failure["message"], "ValueError: x");
  EXPECT_EQ(failure["traceback"], "T");
  EXPECT_EQ(failure["log_tail"].back(), "last line");
  agent_->CloseLog();
  EXPECT_TRUE(AgentEnds());
}

TEST_F(StalledLogTest, ACrashIsToldWithTheLastLines) {
  RunUntilTheLogIsFull("print('last words', flush=True); os.abort()");
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_THAT(failure["message"].get<std::string>(), HasSubstr("was killed by SIGABRT (signal 6)"));
  EXPECT_THAT(failure["log_tail"].get<std::vector<std::string>>(), Contains("last words"));
  agent_->CloseLog();
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, EndingWithoutDoneIsAFailure) {
  RunProgram("say('state', state='running')");
  EXPECT_THAT(FailureMessage(), HasSubstr("exited with code 0"));
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
  bootstrap["answer_timeout_ms"] = 2000;
  LaunchRunning(bootstrap);
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_EQ(failure["step"], "answer its agent");
  EXPECT_EQ(failure["lost"], true);
  const std::string message = failure["message"];
  EXPECT_THAT(message, HasSubstr("it is frozen (stopped by SIGSTOP"));
  EXPECT_THAT(message, HasSubstr("It was running, step=120."));
  EXPECT_THAT(message, HasSubstr("spark.tfos.node.answerTimeout"));
  ExpectEnd();
}

TEST_F(AgentCommandTest, HowLongANodeHasNotAnsweredIsAMetric) {
  json bootstrap = Bootstrap("say('pong'); say('state', state='running'); hear(); forever()");
  bootstrap["answer_timeout_ms"] = 0;
  LaunchRunning(bootstrap);
  const json heartbeat = coordinator_.Await([](const json& message) {
    return message["type"] == "heartbeat" && message["metrics"].contains("seconds_without_answer");
  });
  EXPECT_GE(heartbeat["metrics"]["seconds_without_answer"], 2);
}

TEST_F(AgentCommandTest, ANodeThatNeverSaysThatItAnswersIsNotAsked) {
  json bootstrap =
      Bootstrap("say('state', state='running'); assert hear()['type'] == 'end_feed'; say('done')");
  bootstrap["answer_timeout_ms"] = 1;
  LaunchRunning(bootstrap);
  for (int i = 0; i < 5; ++i) coordinator_.Await("heartbeat");
  EndFeed();
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
  ExpectEnd();
}

TEST_F(AgentCommandTest, TheNodeEndsWithItsCoordinator) {
  RunProgram("say('state', state='running'); forever()");
  coordinator_.Die();
  EXPECT_THAT(agent_->Await("failed")["failure"]["message"].get<std::string>(),
              HasSubstr("lost the coordinator"));
  ExpectEnd();
}

TEST_F(AgentCommandTest, TheNodeEndsWithItsExecutor) {
  auto executor = Subprocess::Start({.argv = {"/bin/sleep", "600"}});
  ASSERT_TRUE(executor.ok());
  json bootstrap = Bootstrap(
      "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('state', state='running'); forever()");
  bootstrap["watch_pid"] = (*executor)->pid();
  LaunchRunning(bootstrap);
  (*executor)->SignalGroup(SIGKILL);
  EXPECT_THAT(FailureMessage(), HasSubstr("the Spark executor"));
  ExpectEnd();
}

// Covers: Python worker killed / training
TEST_F(AgentCommandTest, TheNodeEndsWhenItsTaskIsKilled) {
  RunProgram("say('state', state='running'); forever()");
  agent_->CloseInput();
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_THAT(std::string(failure["message"]), HasSubstr("Spark task"));
  EXPECT_EQ(failure["lost"], true) << "another may come in its place";
  ExpectEnd();
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

// Covers: Python worker killed / starting
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
  ExpectEnd();
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

TEST_F(AgentCommandTest, ALaterStopShortensTheGraceOfAnEarlierOne) {
  RunProgram(
      "signal.signal(signal.SIGTERM, signal.SIG_IGN); say('state', state='running'); forever()");
  coordinator_.Send({{"type", "stop"}, {"reason", "slowly"}, {"grace_ms", 3600'000}});
  coordinator_.Send({{"type", "stop"}, {"reason", "at once"}, {"grace_ms", 0}});
  EXPECT_TRUE(NodeEnds());
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
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
  EXPECT_THAT(FailureMessage(), HasSubstr("the node sent something other than messages"));
  ExpectEnd();
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
  EndFeed();
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
  ExpectEnd();
}

TEST_F(AgentCommandTest, UnknownMessagesAreIgnored) {
  RunProgram("say('state', state='running'); say('news', x=1); hear(); say('done')");
  coordinator_.Send({{"type", "from the future"}});
  agent_->Write("{\"type\":\"what\"}\n");
  EndFeed();
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
  EndFeed();
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
  EndFeed();
}

}  // namespace
}  // namespace tfos::cli
