// What an agent tells of its node's GPUs, by an `nvidia-smi` of the test's own, and that this one
// never outlives the node or the agent.

#include "cli/agent_tests/agent_command_fixture.h"

namespace tfos::cli {
namespace {

class AgentGpusTest : public AgentCommandTest {
 protected:
  void SetUp() override {
    ASSERT_NE(::mkdtemp(directory_.data()), nullptr);
    path_ = std::getenv("PATH");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  /// Starts an agent with two GPUs and its node. `script`: of its nvidia-smi, which has said its
  /// arguments and its process before. It is for the usage: what GPUs there are, the agent has
  /// asked by then.
  void RunWithGpus(const std::string& script, const std::string& program) {
    const std::string command = directory_ + "/nvidia-smi";
    std::ofstream(command) << "#!/bin/sh\ncd " << directory_ << "\ncase \"$*\" in\n"
                           << "*=index,uuid*) echo \"0, $PWD/0\"; echo \"3, $PWD/3\"; exit ;;\n"
                           << "*compute-apps*) exit ;;\nesac"
                           << "\necho \"$*\" >asked\necho $$ >pid\n"
                           << script << "\n";
    ASSERT_EQ(::chmod(command.c_str(), 0700), 0);
    json bootstrap = Bootstrap("say('state', state='running'); " + program);
    bootstrap["gpus"] = {{"assigned", json::array({"0", "3"})}, {"count", 2}, {"fraction", 0.0}};
    ::setenv("PATH", (directory_ + ":" + path_).c_str(), 1);
    Launch(bootstrap);
    ::setenv("PATH", path_.c_str(), 1);
    coordinator_.StartNode();
    node_ = coordinator_.AwaitState("running")["pid"];
  }

  /// The metrics of the next heartbeat that has those of GPUs, or has none.
  json AwaitMetrics(bool with_gpus) {
    while (true) {
      const json heartbeat = coordinator_.Await("heartbeat");
      if (!heartbeat.contains("metrics")) return json::object();  // The wait has failed.
      const json& metrics = heartbeat["metrics"];
      if (metrics.contains("rss_bytes") && metrics.contains("gpu_utilization") == with_gpus) {
        return metrics;
      }
    }
  }

  /// Once a heartbeat has said what it printed.
  void WatchChild() {
    pid_t pid = 0;
    std::ifstream(directory_ + "/pid") >> pid;
    ASSERT_GT(pid, 0);
    child_ = Watch(pid);
    ASSERT_TRUE(child_->valid());
  }

  /// The child tells its usage, and then does `last`, which is the end of the metrics, and nothing
  /// else. The log says so once, with `why`.
  void ExpectMetricsUntil(const std::string& last, const std::string& why) {
    ASSERT_EQ(::mkfifo((directory_ + "/go").c_str(), 0600), 0);
    RunWithGpus("echo '0, 50, 1024'; echo '3, 100, 3072'; read line <go; " + last,
                "hear(); say('done')");
    AwaitMetrics(true);
    WatchChild();
    std::ofstream(directory_ + "/go") << "on\n";
    AwaitMetrics(false);
    EXPECT_TRUE(Ends(child_));
    coordinator_.Send({{"type", "end_feed"}});
    coordinator_.Await("done");
    EXPECT_TRUE(AgentEnds());
    const std::string log = agent_->AwaitLog();
    const std::string warning = "the usage of GPU 0, 3 is not shown any more: ";
    const std::size_t first = log.find(warning);
    ASSERT_NE(first, std::string::npos) << log;
    EXPECT_NE(log.find(why, first), std::string::npos) << log;
    EXPECT_EQ(log.find(warning, first + 1), std::string::npos) << log;
  }

  std::string directory_ = ::testing::TempDir() + "agent_gpus_XXXXXX";
  std::string path_;
  pid_t node_ = 0;
  std::optional<UniqueFd> child_;
};

const char* const kGoesOn = "echo '0, 50, 1024'; echo '3, 100, 3072'; exec sleep 600";

TEST_F(AgentGpusTest, HeartbeatsSayWhatTheGpusDoUntilTheNodeEnds) {
  RunWithGpus(kGoesOn, "hear(); say('done')");
  const json metrics = AwaitMetrics(true);
  EXPECT_EQ(metrics["gpu_utilization"], 0.75);
  EXPECT_EQ(metrics["gpu_memory_bytes"], std::int64_t{4} << 30);
  std::string asked;
  std::getline(std::ifstream(directory_ + "/asked"), asked);
  EXPECT_EQ(asked,
            "--id=0,3 --query-gpu=index,utilization.gpu,memory.used "
            "--format=csv,noheader,nounits --loop=2");
  WatchChild();
  coordinator_.Send({{"type", "end_feed"}});
  coordinator_.Await("done");
  EXPECT_TRUE(AgentEnds());
  EXPECT_TRUE(Ends(child_));
}

TEST_F(AgentGpusTest, NoChildOutlivesANodeThatIsKilled) {
  RunWithGpus(kGoesOn, "forever()");
  AwaitMetrics(true);
  WatchChild();
  ::kill(node_, SIGKILL);
  coordinator_.Await("failed");
  EXPECT_TRUE(AgentEnds());
  EXPECT_TRUE(Ends(child_));
}

TEST_F(AgentGpusTest, NoChildOutlivesAnAgentThatIsKilled) {
  RunWithGpus(kGoesOn, "forever()");
  AwaitMetrics(true);
  WatchChild();
  ::kill(registered_["agent_pid"].get<pid_t>(), SIGKILL);
  EXPECT_TRUE(AgentEnds());
  EXPECT_TRUE(Ends(child_));
}

TEST_F(AgentGpusTest, WhatNobodyUnderstandsEndsTheChildAndTheMetrics) {
  ExpectMetricsUntil("echo 'GPU is lost'; exec sleep 600", "nvidia-smi answered 'GPU is lost'");
}

TEST_F(AgentGpusTest, AChildThatEndsEndsTheMetricsAndNotTheNode) {
  ExpectMetricsUntil("exit 6", "nvidia-smi exited with code 6");
}

}  // namespace
}  // namespace tfos::cli
