#include "cli/agent_tests/agent_command_fixture.h"

namespace tfos::cli {
namespace {

/// Starts a process that leaves the node's group, as daemons do, and says its pid.
const char* const kStray = R"(
import subprocess
stray = subprocess.Popen(['/bin/sleep', '600'], start_new_session=True)
say('state', state='running', detail=str(stray.pid))
)";
/// The same, and its parent ends: nothing leads from the node to it any more.
const char* const kOrphan = R"(
import subprocess
left = "setsid sh -c 'echo $$; exec >/dev/null 2>&1; exec sleep 600'"
pid = subprocess.run(['/bin/sh', '-c', f'pid=$({left} &); echo $pid'],
                     stdout=subprocess.PIPE).stdout
say('state', state='running', detail=str(int(pid)))
)";

class AgentStraysTest : public AgentCommandTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void RunWithAStray(const std::string& program) {
    Launch(Bootstrap(GetParam() + program));
    coordinator_.StartNode();
    const json running = coordinator_.AwaitState("running");
    node_ = running["pid"];
    stray_ = Watch(std::stoi(running["detail"].get<std::string>()));
    ASSERT_TRUE(stray_->valid());
  }

  pid_t node_ = 0;
  std::optional<UniqueFd> stray_;
};

INSTANTIATE_TEST_SUITE_P(Strays, AgentStraysTest, ::testing::Values(kStray, kOrphan));

TEST_P(AgentStraysTest, EndWithANodeThatIsDone) {
  RunWithAStray("hear(); say('done')");
  EndFeed();
  EXPECT_TRUE(Ends(stray_));
}

TEST_P(AgentStraysTest, EndWithANodeThatIsKilled) {
  RunWithAStray("forever()");
  ::kill(node_, SIGKILL);
  coordinator_.Await("failed");
  EXPECT_TRUE(AgentEnds());
  EXPECT_TRUE(Ends(stray_));
}

TEST_P(AgentStraysTest, EndWhenTheClusterStops) {
  RunWithAStray("forever()");
  coordinator_.Send({{"type", "stop"}, {"reason", "over"}, {"grace_ms", 5000}});
  EXPECT_TRUE(AgentEnds());
  EXPECT_TRUE(Ends(stray_));
}

TEST_F(AgentCommandTest, WhatTheNodeLeavesBehindIsReaped) {
  Launch(Bootstrap(R"(
import subprocess
pid = subprocess.run(['/bin/sh', '-c', 'pid=$(setsid sh -c "echo \\$\\$" &); echo $pid'],
                     stdout=subprocess.PIPE).stdout
say('state', state='running', detail=str(int(pid)))
forever()
)"));
  coordinator_.StartNode();
  const std::string pid = coordinator_.AwaitState("running")["detail"];
  while (std::filesystem::exists("/proc/" + pid)) coordinator_.Await("heartbeat");
  coordinator_.Send({{"type", "stop"}, {"reason", "over"}, {"grace_ms", 0}});
  EXPECT_TRUE(AgentEnds());
}

}  // namespace
}  // namespace tfos::cli
