#include "cli/agent_tests/agent_command_fixture.h"

namespace tfos::cli {
namespace {

/// As TensorBoard: it shares its port, which the agent holds.
constexpr char kServe[] =
    "import http.server, sys\n"
    "http.server.ThreadingHTTPServer.allow_reuse_port = True\n"
    "http.server.test(http.server.SimpleHTTPRequestHandler, http.server.ThreadingHTTPServer,\n"
    "                 port=int(sys.argv[1]), bind='127.0.0.1')";

TEST_F(AgentCommandTest, TensorBoardOutlivesTheProgramUntilTheStop) {
  json bootstrap = Bootstrap("say('state', state='running'); hear(); say('done')");
  bootstrap["tensorboard"] = {"python3", "-c", kServe, "PORT"};
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
  bootstrap["tensorboard"] = {"python3", "-c", kServe, "PORT"};
  Launch(bootstrap);
  coordinator_.StartNode(/*tensorboard=*/true);
  const json listening = coordinator_.Await([](const json& message) {
    return message["type"] == "state" && !message["tensorboard"].is_null();
  });
  EXPECT_EQ(listening["tensorboard"]["port"], port);
  coordinator_.Send({{"type", "stop"}, {"reason", "over"}, {"grace_ms", 5000}});
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
