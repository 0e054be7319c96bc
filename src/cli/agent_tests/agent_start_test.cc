// What an agent needs before its node runs: a sound bootstrap, its executor, its GPUs, its
// coordinator and a program.

#include <sys/mman.h>

#include "cli/agent_tests/agent_command_fixture.h"

namespace tfos::cli {
namespace {

TEST_F(AgentCommandTest, AProgramThatIsNotThereIsNamed) {
  json bootstrap = Bootstrap("");
  bootstrap["python"] = {"/no/such/python"};
  Launch(bootstrap);
  coordinator_.StartNode();
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_EQ(failure["step"], "start the node");
  EXPECT_THAT(failure["message"].get<std::string>(), HasSubstr("/no/such/python"));
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, AnExecutorThatIsGoneAlreadyStartsNothing) {
  auto executor = Subprocess::Start({.argv = {"/bin/true"}});
  ASSERT_TRUE(executor.ok());
  json bootstrap = Bootstrap("forever()");
  bootstrap["watch_pid"] = (*executor)->pid();
  ASSERT_TRUE((*executor)->Wait(Deadline::After(kLong)).ok());
  agent_ = std::make_unique<LaunchedAgent>(bootstrap);
  EXPECT_EQ(agent_->Await("failed")["failure"]["step"], "watch the executor");
  EXPECT_TRUE(agent_->AwaitEnd());
}

TEST_F(AgentCommandTest, AnUnreachableCoordinatorIsExplained) {
  json bootstrap = Bootstrap("forever()");
  {
    const TestCoordinator gone;
    bootstrap["coordinator"]["port"] = gone.port();
  }
  agent_ = std::make_unique<LaunchedAgent>(bootstrap);
  const std::string message = agent_->Await("failed")["failure"]["message"];
  EXPECT_THAT(message, HasSubstr("node 3 on host "));
  EXPECT_THAT(message, HasSubstr("can't reach the coordinator at 127.0.0.1:"));
  EXPECT_THAT(message, HasSubstr("Connection refused"));
  EXPECT_THAT(message, HasSubstr("spark.tfos.coordinator.advertisedAddress"));
  EXPECT_TRUE(agent_->AwaitEnd());
}

TEST_F(AgentCommandTest, ARefusedKeyIsExplained) {
  agent_ = std::make_unique<LaunchedAgent>(Bootstrap("forever()"));
  coordinator_.Decline();
  EXPECT_THAT(agent_->Await("failed")["failure"]["message"].get<std::string>(),
              HasSubstr("it belongs to another cluster"));
  EXPECT_TRUE(agent_->AwaitEnd());
}

TEST_F(AgentCommandTest, AnAddressThatTheHostDoesNotHaveIsExplained) {
  json bootstrap = Bootstrap("forever()");
  bootstrap["advertised_address"] = "192.0.2.1";  // of RFC 5737: nobody has it
  bootstrap["bind_address"] = "";
  Launch(bootstrap);
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_EQ(failure["step"], "take ports");
  const std::string message = failure["message"];
  EXPECT_THAT(message, HasSubstr("listen on 192.0.2.1, where others reach node 3"));
  EXPECT_THAT(message, HasSubstr("spark.tfos.node.bindAddress"));
  EXPECT_THAT(message, HasSubstr("Cannot assign requested address"));
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, WhatTheHostLacksIsToldToTheCoordinator) {
  json bootstrap = Bootstrap("forever()");
  bootstrap["gpus"] = {{"assigned", {"0"}}, {"count", 2}, {"fraction", 0.0}};
  Launch(bootstrap);
  const json failure = coordinator_.Await("failed")["failure"];
  EXPECT_EQ(failure["step"], "take GPUs");
  EXPECT_TRUE(AgentEnds());
}

TEST_F(AgentCommandTest, GpusAreTakenBeforeItConnects) {
  // An `nvidia-smi` that says when it was asked, and a GPU that somebody else holds.
  std::string directory = ::testing::TempDir() + "agent_XXXXXX";
  ASSERT_NE(::mkdtemp(directory.data()), nullptr);
  const std::string uuid = "GPU-" + directory;
  const std::string asked = directory + "/asked";
  ASSERT_EQ(::mkfifo(asked.c_str(), 0600), 0);
  std::ofstream(directory + "/nvidia-smi") << "#!/bin/sh\necho '0, " << uuid << "'\n"
                                           << "echo asked >" << asked << "\n";
  ASSERT_EQ(::chmod((directory + "/nvidia-smi").c_str(), 0700), 0);
  const UniqueFd events(::open(asked.c_str(), O_RDWR | O_CLOEXEC));
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (directory + ":" + path).c_str(), 1);
  const control::GpuRequest one = {.assigned = {}, .count = 1, .fraction = 0.0};
  auto held = control::GpuLease::Take(one, {{.index = "0", .uuid = uuid}});
  ASSERT_TRUE(held.ok()) << held.status().ToString();

  json bootstrap = Bootstrap("say('state', state='running'); say('done')");
  bootstrap["gpus"] = {{"assigned", json::array()}, {"count", 1}, {"fraction", 0.0}};
  agent_ = std::make_unique<LaunchedAgent>(bootstrap);
  ::setenv("PATH", path.c_str(), 1);
  ASSERT_TRUE(Readable(events.get(), Deadline::After(kLong)));
  EXPECT_FALSE(coordinator_.HasVisitor());
  held = Status(ErrorKind::kRetryLater, "given back");
  ASSERT_TRUE(coordinator_.Accept());
  EXPECT_EQ(coordinator_.Await("register")["gpus"], json({"0"}));
  coordinator_.StartNode();
  coordinator_.Await("done");
  std::filesystem::remove_all(directory);
}

TEST_F(AgentCommandTest, WhatTheHostLacksIsToldEvenWithoutACoordinator) {
  json bootstrap = Bootstrap("forever()");
  bootstrap["gpus"] = {{"assigned", {"0"}}, {"count", 2}, {"fraction", 0.0}};
  {
    const TestCoordinator gone;
    bootstrap["coordinator"]["port"] = gone.port();
  }
  agent_ = std::make_unique<LaunchedAgent>(bootstrap);
  EXPECT_EQ(agent_->Await("failed")["failure"]["step"], "take GPUs");
  EXPECT_TRUE(agent_->AwaitEnd());
}

TEST_F(AgentCommandTest, SparksGpusAreRegisteredAndHandedOn) {
  // A name of its own: tests that run at the same time lease by names.
  const std::string name = "test-" + std::to_string(::getpid());
  json bootstrap = Bootstrap("assert bootstrap['gpus'] == ['" + name +
                             "']; say('state', state='running'); say('done')");
  bootstrap["gpus"] = {{"assigned", {name}}, {"count", 1}, {"fraction", 0.0}};
  Launch(bootstrap);
  EXPECT_EQ(registered_["gpus"], json({name}));
  coordinator_.StartNode();
  coordinator_.Await("done");
}

TEST_F(AgentCommandTest, TheNodeWritesWhatItsProgramReturnsIntoTheFileOfTheTask) {
  // Without a name, so that nothing of it is left when anybody is killed.
  const UniqueFd file(::memfd_create("result", 0));
  ASSERT_TRUE(file.valid());
  json bootstrap = Bootstrap(
      "os.write(int(os.environ['RESULT']), b'seven'); say('state', state='running'); say('done')");
  bootstrap["result_fd"] = file.get();
  bootstrap["environment"].push_back("RESULT=" + std::to_string(file.get()));
  Launch(bootstrap);
  coordinator_.StartNode();
  coordinator_.Await("done");
  std::array<char, 16> content;
  const ssize_t got = ::pread(file.get(), content.data(), content.size(), 0);
  EXPECT_EQ(std::string(content.data(), got > 0 ? got : 0), "seven");
}

TEST_F(AgentCommandTest, ABadBootstrapFailsWithoutRepeatingAKey) {
  json bootstrap = Bootstrap("forever()");
  bootstrap.erase("python");
  agent_ = std::make_unique<LaunchedAgent>(bootstrap);
  const std::string message = agent_->Await("failed")["failure"]["message"];
  EXPECT_THAT(message, HasSubstr("python"));
  EXPECT_EQ(message.find(kJoinKey), std::string::npos);
  EXPECT_TRUE(agent_->AwaitEnd());
  EXPECT_EQ(agent_->AwaitLog().find(kJoinKey), std::string::npos);
}

}  // namespace
}  // namespace tfos::cli
