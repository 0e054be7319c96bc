// Which workers wait for which others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "parameter_server/client.h"
#include "parameter_server/server_fixture.h"
#include "testing/middle_man.h"

namespace tfos::parameter_server {
namespace {

using std::chrono::milliseconds;
using tfos::testing::MiddleMan;

TEST_P(ServerTest, OthersWaitForTheFirstValues) {
  Start(2);
  std::latch connected(1);
  std::vector<float> seen;
  std::thread other([&] {
    const auto client = Connect(Options(1));
    connected.count_down();
    ASSERT_TRUE(client->Run({.pull = true}, {}).ok());
    seen = Values(*client, 1);
  });
  EXPECT_FALSE(connected.try_wait());
  const auto first = First(3);
  other.join();
  EXPECT_EQ(seen, std::vector<float>(10, 3));
}

TEST_P(ServerTest, WhoWaitsForValuesInVainIsToldWhy) {
  Start(1);
  ClientOptions options = Options(1);
  options.connect_timeout = seconds(3);  // For the connection, the handshake and a first line.
  options.stall_after = milliseconds(50);
  ::testing::internal::CaptureStdout();  // The log, as nobody has set it up.
  const auto client = Client::Connect(options);
  const std::string log = ::testing::internal::GetCapturedStdout();
  EXPECT_THAT(
      log, ::testing::ContainsRegex("worker:1 on host h has waited [0-9]+ s for the first values"));
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().kind(), ErrorKind::kRetryLater);
  EXPECT_NE(client.status().ToString().find("ps:0 on host h"), std::string::npos);
  EXPECT_NE(client.status().ToString().find("first worker"), std::string::npos);
}

TEST_P(ServerTest, NoWorkerIsFurtherAheadThanAllowed) {
  Start(2);
  constexpr std::uint32_t kStaleness = 2;
  constexpr int kPushes = 12;
  const auto first = First(0);  // Without a bound: it is not waited for.
  std::mutex mutex;
  std::vector<int> done(3);
  std::latch all_there(3);
  std::vector<std::thread> workers;
  for (std::uint32_t worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&, worker] {
      ClientOptions options = Options(worker + 1);
      options.staleness = kStaleness;
      const auto client = Connect(options);
      const auto tensors = All(1);
      std::vector<std::span<const std::byte>> views;
      for (const auto& tensor : tensors) views.push_back(std::as_bytes(std::span(tensor)));
      // A worker that has not pushed is not waited for.
      ASSERT_TRUE(client->Run({.push = Pushed::kValues}, views).ok());
      all_there.arrive_and_wait();
      for (int i = 0; i < kPushes; ++i) {
        {
          const std::lock_guard lock(mutex);
          // A worker that goes on was let on: others may have pushed once more than they know, and
          // joined one push ahead of the slowest.
          for (const int other : done) {
            ASSERT_LE(done[worker] - other, static_cast<int>(kStaleness) + 2);
          }
        }
        ASSERT_TRUE(client->Run({.push = Pushed::kValues}, views).ok());
        const std::lock_guard lock(mutex);
        ++done[worker];
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(done, (std::vector<int>{kPushes, kPushes, kPushes}));
}

// Covers: node killed / parameter servers
TEST_P(ServerTest, AWorkerThatIsGoneIsNotWaitedFor) {
  Start(2);
  const auto first = First(0);
  ClientOptions options = Options(1);
  options.staleness = 0;
  const auto fast = Connect(options);
  options.worker = 2;
  auto slow = Connect(options);
  const auto tensors = All(1);
  const Client::Exchange push{.push = Pushed::kValues, .overlapped = true};
  ASSERT_TRUE(slow->Run({.push = Pushed::kValues}, Views(tensors)).ok());
  ASSERT_TRUE(fast->Run(push, Views(tensors)).ok());  // Waits for the slow one, in the background.
  slow.reset();
  ASSERT_TRUE(fast->Run(push, Views(tensors)).ok());
  ASSERT_TRUE(fast->Run({.pull = true}, {}).ok());
  EXPECT_EQ(Values(*fast, 1)[0], 3);
}

TEST_P(ServerTest, AWorkerThatNeverPushesIsNotWaitedFor) {
  Start(2);
  ClientOptions options = Options(0);
  options.staleness = 0;
  const auto silent = Connect(options);
  const auto tensors = All(0);
  ASSERT_TRUE(silent->Write(0, Views(tensors)).ok());
  ASSERT_TRUE(silent->StartAt(0).ok());
  options = Options(1);
  options.staleness = 0;
  const auto client = Connect(options);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client->Run({.push = Pushed::kValues}, Views(tensors)).ok());
  }
  ASSERT_TRUE(silent->Run({.pull = true}, {}).ok());
  EXPECT_EQ(silent->version(), 3U);
}

TEST_P(ServerTest, WorkersWhomServersHearInDifferentOrdersGoOn) {
  Start(2);
  const auto first = First(0);
  std::atomic<bool> held = false;
  std::latch released(1);
  const MiddleMan::Rule hold = [&](MiddleMan::Direction direction, std::uint64_t, std::string&) {
    if (held && direction == MiddleMan::Direction::kToServer) released.wait();
    return true;
  };
  MiddleMan men[] = {{servers_[0]->address().port, hold}, {servers_[1]->address().port, hold}};
  std::unique_ptr<Client> workers[2];
  for (std::uint32_t worker : {0U, 1U}) {
    ClientOptions options = Options(worker + 1);
    options.staleness = 0;
    // So that a worker that waits without end fails the test.
    options.check = [deadline = Deadline::After(seconds(60))] {
      return deadline.passed() ? Status(ErrorKind::kInterrupted, "waits for ever") : Status();
    };
    // Each worker's pushes to the other server are on the way for longer.
    ServerAddress& slow = options.servers[1 - worker];
    slow.port = men[1 - worker].port();
    slow.local_name.clear();
    workers[worker] = Connect(options);
  }
  held = true;
  const auto tensors = All(1);
  for (const auto& worker : workers) {
    EXPECT_TRUE(worker->Run({.push = Pushed::kValues, .overlapped = true}, Views(tensors)).ok());
  }
  const auto await_pushes = [&](std::uint64_t pushes) {
    for (const auto& server : servers_) {
      while (server->server().counters().pushes < pushes) std::this_thread::yield();
    }
  };
  await_pushes(1);
  released.count_down();
  await_pushes(2);
  // The second one counts as one push ahead at the server that lets workers wait.
  for (const auto& worker : workers) {
    const Status status =
        worker->Run({.push = Pushed::kValues, .overlapped = true}, Views(tensors));
    EXPECT_TRUE(status.ok()) << status.ToString();
  }
}

}  // namespace
}  // namespace tfos::parameter_server
