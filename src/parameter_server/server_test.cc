// What becomes of what workers push, and what they get.

#include "parameter_server/server.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "parameter_server/client.h"
#include "parameter_server/server_fixture.h"

namespace tfos::parameter_server {
namespace {

TEST_P(ServerTest, AChangeIsAddedAndComesBack) {
  Start(3);
  const auto client = First(1);
  ASSERT_TRUE(client->Run({.pull = true}, {}).ok());
  EXPECT_EQ(Values(*client, 1), std::vector<float>(10, 1));
  auto tensors = All(0);
  std::iota(tensors[0].begin(), tensors[0].end(), 0.0F);
  std::iota(tensors[1].begin(), tensors[1].end(), 5.0F);
  ASSERT_TRUE(client->Run({.push = Pushed::kChange, .pull = true}, Views(tensors)).ok());
  EXPECT_EQ(Values(*client, 0), tensors[0]);
  EXPECT_EQ(Values(*client, 1), tensors[1]);
  EXPECT_EQ(client->version(), 1U);
}

TEST_P(ServerTest, ChangesOfManyWorkersAddUp) {
  Start(2);
  const auto first = First(0);
  constexpr int kWorkers = 4;
  constexpr int kPushes = 5;
  std::vector<std::thread> workers;
  for (int worker = 1; worker <= kWorkers; ++worker) {
    workers.emplace_back([this, worker] {
      const auto client = Connect(Options(static_cast<std::uint32_t>(worker)));
      ASSERT_TRUE(client->Run({.pull = true}, {}).ok());
      for (int i = 0; i < kPushes; ++i) {
        std::vector<std::vector<float>> tensors{Values(*client, 0), Values(*client, 1)};
        for (auto& tensor : tensors) {
          for (float& value : tensor) value += static_cast<float>(worker);
        }
        std::vector<std::span<const std::byte>> views;
        for (const auto& tensor : tensors) views.push_back(std::as_bytes(std::span(tensor)));
        ASSERT_TRUE(client->Run({.push = Pushed::kChange, .pull = true}, views).ok());
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  ASSERT_TRUE(first->Run({.pull = true}, {}).ok());
  const float sum = kPushes * (1 + 2 + 3 + 4);
  EXPECT_EQ(Values(*first, 0), std::vector<float>(300'000, sum));
  EXPECT_EQ(Values(*first, 1), std::vector<float>(10, sum));
  EXPECT_EQ(first->version(), 20U);
}

TEST_P(ServerTest, AnOverlappedExchangeKeepsWhatTheWorkerDoesMeanwhile) {
  Start(1);
  const auto other = First(0);
  ASSERT_TRUE(other->Run({.pull = true}, {}).ok());
  const auto client = Connect(Options(1));
  ASSERT_TRUE(client->Run({.pull = true}, {}).ok());
  const Client::Exchange exchange{.push = Pushed::kChange, .pull = true, .overlapped = true};
  auto tensors = All(1);  // The worker's first step: + 1.
  ASSERT_TRUE(client->Run(exchange, Views(tensors)).ok());
  EXPECT_EQ(Values(*client, 1)[0], 1) << "nothing has arrived, so it keeps its own";
  auto theirs = All(10);
  ASSERT_TRUE(other->Run({.push = Pushed::kChange, .pull = true}, Views(theirs)).ok());
  tensors = All(3);  // + 2.
  ASSERT_TRUE(client->Run(exchange, Views(tensors)).ok());
  // The first exchange may have seen the other's 10, or some of them; its own 2 are there in any
  // case.
  tensors = {Values(*client, 0), Values(*client, 1)};
  for (auto& tensor : tensors) {
    for (float& value : tensor) {
      ASSERT_TRUE(value == 3 || value == 13) << value;
      value += 4;
    }
  }
  ASSERT_TRUE(client->Run({.push = Pushed::kChange, .pull = true}, Views(tensors)).ok());
  EXPECT_EQ(Values(*client, 0), std::vector<float>(300'000, 1 + 10 + 2 + 4));
}

TEST_P(ServerTest, AChangeIsPushedOnce) {
  Start(2);
  const auto client = First(0);
  ASSERT_TRUE(client->Run({.pull = true}, {}).ok());
  const Client::Exchange push{.push = Pushed::kChange};
  auto tensors = All(5);
  ASSERT_TRUE(client->Run(push, Views(tensors)).ok());
  ASSERT_TRUE(client->Run(push, Views(tensors)).ok());
  tensors = All(7);
  ASSERT_TRUE(client->Run({.push = Pushed::kChange, .pull = true}, Views(tensors)).ok());
  EXPECT_EQ(Values(*client, 0), tensors[0]);
  EXPECT_EQ(client->version(), 3U);
  // Nor when an exchange has landed in between, which the worker has not taken.
  const Client::Exchange overlapped{.push = Pushed::kChange, .pull = true, .overlapped = true};
  tensors = All(8);
  ASSERT_TRUE(client->Run(overlapped, Views(tensors)).ok());
  tensors = All(10);
  ASSERT_TRUE(client->Run(push, Views(tensors)).ok());
  ASSERT_TRUE(client->Run(overlapped, Views(tensors)).ok());
  ASSERT_TRUE(client->Run({.pull = true}, {}).ok());
  EXPECT_EQ(Values(*client, 0), tensors[0]);
}

TEST_P(ServerTest, StatisticsAreAveragedWhereChangesAreAdded) {
  variables_[1].averaged = true;
  Start(2);
  const auto client = First(0, {.workers = 4});
  ASSERT_TRUE(client->Run({.pull = true}, {}).ok());
  const auto tensors = All(8);
  const Client::Exchange overlapped{.push = Pushed::kChange, .pull = true, .overlapped = true};
  ASSERT_TRUE(client->Run(overlapped, Views(tensors)).ok());  // 8 / 4
  EXPECT_EQ(Values(*client, 1), tensors[1]) << "nothing has arrived";
  ASSERT_TRUE(client->Run(overlapped, Views(tensors)).ok());  // (3 * 2 + 8) / 4
  EXPECT_EQ(Values(*client, 0), tensors[0]);
  EXPECT_EQ(Values(*client, 1), std::vector<float>(10, 2)) << "of the push before";
  ASSERT_TRUE(client->Run({.pull = true}, {}).ok());
  EXPECT_EQ(Values(*client, 0), tensors[0]) << "which were added once";
  EXPECT_EQ(Values(*client, 1), std::vector<float>(10, 3.5F));
  EXPECT_NE(Client::Connect(Options(1)).status().ToString().find("a mean of no workers"),
            std::string::npos);
}

TEST_P(ServerTest, OverlappedMeansPushValues) {
  Start(1);
  const auto client = First(0, {.combiner = Combiner::kMean, .workers = 2});
  ASSERT_TRUE(client->Run({.pull = true}, {}).ok());
  const Client::Exchange exchange{.push = Pushed::kValues, .pull = true, .overlapped = true};
  auto tensors = All(8);
  ASSERT_TRUE(client->Run(exchange, Views(tensors)).ok());  // The server: 4.
  tensors = All(10);
  ASSERT_TRUE(client->Run(exchange, Views(tensors)).ok());  // Pushes 10: 7.
  EXPECT_EQ(Values(*client, 1)[0], 4 + 2);
  ASSERT_TRUE(client->Run({.pull = true}, {}).ok());
  EXPECT_EQ(Values(*client, 1)[0], 7);
}

TEST_P(ServerTest, GradientsGoThroughTheServersOptimizer) {
  Start(2);
  const auto client = First(1, {.combiner = Combiner::kSgd, .learning_rate = 0.5, .momentum = 0.5});
  auto gradients = All(1);
  ASSERT_TRUE(client->Run({.push = Pushed::kGradients, .pull = true}, Views(gradients)).ok());
  EXPECT_EQ(Values(*client, 0)[12'345], 0.5F);
  const Client::Exchange overlapped{.push = Pushed::kGradients, .pull = true, .overlapped = true};
  gradients = All(2);
  ASSERT_TRUE(client->Run(overlapped, Views(gradients)).ok());
  ASSERT_TRUE(client->Run(overlapped, Views(gradients)).ok());
  EXPECT_EQ(Values(*client, 0)[12'345], -0.75F) << "of the push before";
}

TEST_P(ServerTest, StateIsReadAndWrittenWhateverTheNumberOfServers) {
  const Rule adam{.combiner = Combiner::kAdam,
                  .learning_rate = 0.1,
                  .beta_1 = 0.9,
                  .beta_2 = 0.999,
                  .epsilon = 1e-7};
  Start(3);
  std::vector<std::vector<std::vector<float>>> state(3, All(0));
  std::uint64_t version = 0;
  std::vector<float> expected;
  const auto gradients = All(3);
  {
    const auto client = First(1, adam);
    ASSERT_TRUE(client->Run({.push = Pushed::kGradients}, Views(gradients)).ok());
    for (std::uint8_t part = 0; part < 3; ++part) {
      std::vector<std::span<std::byte>> rooms;
      for (auto& tensor : state[part]) rooms.push_back(std::as_writable_bytes(std::span(tensor)));
      ASSERT_TRUE(client->Read(part, rooms).ok());
    }
    version = client->version();
    ASSERT_TRUE(client->Run({.push = Pushed::kGradients, .pull = true}, Views(gradients)).ok());
    expected = Values(*client, 0);
  }
  EXPECT_EQ(version, 1U);
  EXPECT_NE(state[1][0][5], 0);
  servers_.clear();
  Start(1);
  const auto client = Connect(Options(0, adam));
  for (std::uint8_t part = 0; part < 3; ++part) {
    ASSERT_TRUE(client->Write(part, Views(state[part])).ok());
  }
  ASSERT_TRUE(client->StartAt(version).ok());
  ASSERT_TRUE(client->Run({.push = Pushed::kGradients, .pull = true}, Views(gradients)).ok());
  EXPECT_EQ(Values(*client, 0), expected);
  EXPECT_EQ(client->version(), 2U);
}

TEST_P(ServerTest, WorkersThatWantDifferentThingsAreTold) {
  Start(1);
  const auto first = First(0);
  ClientOptions options = Options(1, {.combiner = Combiner::kUpdateMean});
  EXPECT_NE(Client::Connect(options).status().ToString().find("worker:1 on host h uses another"),
            std::string::npos);
  options = Options(1);
  options.variables[1].elements = 11;
  const auto other = Client::Connect(options);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().kind(), ErrorKind::kBadInput);
  EXPECT_NE(other.status().ToString().find("other variables"), std::string::npos);
  options = Options(1);
  options.variables[1].averaged = true;
  options.rule.workers = 2;
  EXPECT_NE(Client::Connect(options).status().ToString().find("others of them are trainable"),
            std::string::npos);
  const auto tensors = All(1);
  EXPECT_EQ(first->Run({.push = Pushed::kValues}, Views(tensors).first(1)).kind(),
            ErrorKind::kBadInput);
}

TEST_P(ServerTest, CountersSayWhatWasDone) {
  Start(1);
  const auto client = First(0);
  const auto tensors = All(1);
  ASSERT_TRUE(client->Run({.push = Pushed::kValues}, Views(tensors)).ok());
  const ServerCounters counters = servers_[0]->server().counters();
  EXPECT_EQ(counters.workers, 1U);
  EXPECT_EQ(counters.pushes, 1U);
  EXPECT_EQ(counters.values_bytes, counters.bytes_combined);
  EXPECT_GE(counters.values_bytes, 300'010 * sizeof(float));
}

}  // namespace
}  // namespace tfos::parameter_server
