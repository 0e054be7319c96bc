#include "cli/agent_tests/agent_command_fixture.h"

namespace tfos::cli {
namespace {

TEST_F(AgentCommandTest, ACopyStandsByUntilItsTaskIsKilled) {
  Launch(Bootstrap(""));
  coordinator_.Send({{"type", "stand_by"}, {"reason", "it runs"}});
  EXPECT_EQ(agent_->Await("stand_by")["reason"], "it runs");
  EXPECT_TRUE(
      control::HeldPort::Bind({.first = registered_["port"], .last = registered_["port"]}).ok())
      << "it keeps a port for a node that it will not start";
  agent_->CloseInput();
  EXPECT_TRUE(coordinator_.AwaitEnd()) << "what ends as planned is told as a failure";
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, ACopyTellsItsTaskNoFailureWhenTheClusterEnds) {
  Launch(Bootstrap(""));
  coordinator_.Send({{"type", "stand_by"}, {"reason", "it runs"}});
  agent_->Await("stand_by");
  coordinator_.Die();
  EXPECT_TRUE(agent_->Next().is_null());
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, ACopyIsToldThatTheOtherAttemptIsLost) {
  Launch(Bootstrap(""));
  coordinator_.Send({{"type", "stand_by"}, {"reason", "it runs"}});
  coordinator_.Send({{"type", "refused"}, {"message", "it is lost"}});
  const json failure = agent_->Await("failed")["failure"];
  EXPECT_EQ(failure["step"], "register");
  EXPECT_THAT(failure["message"], HasSubstr("it is lost"));
  EXPECT_TRUE(AgentEnds());
}

}  // namespace
}  // namespace tfos::cli
