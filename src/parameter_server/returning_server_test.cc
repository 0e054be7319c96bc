// Servers that are lost and come again: which client gives them values, and what becomes of what is
// under way. And connections that break while the server is there.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parameter_server/client.h"
#include "parameter_server/server.h"
#include "parameter_server/server_fixture.h"
#include "testing/raw_client.h"

namespace tfos::parameter_server {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr Client::Exchange kPull{.pull = true};
constexpr Client::Exchange kChange{.push = Pushed::kChange, .pull = true};
constexpr Client::Exchange kOverlapped{.push = Pushed::kChange, .pull = true, .overlapped = true};
constexpr Client::Exchange kGradients{.push = Pushed::kGradients, .pull = true};

/// Where the servers are now. Clients ask on threads of theirs.
class Places {
 public:
  void Set(std::size_t server, const ServerAddress& address) {
    const std::lock_guard lock(mutex_);
    if (places_.size() <= server) places_.resize(server + 1);
    places_[server] = address;
  }
  ServerAddress Of(std::size_t server) {
    const std::lock_guard lock(mutex_);
    return places_[server];
  }

 private:
  std::mutex mutex_;
  std::vector<ServerAddress> places_;
};

class ReturningServerTest : public ServerTest {
 protected:
  void StartThatReturn(std::uint32_t servers) {
    Start(servers);
    for (std::size_t i = 0; i < servers_.size(); ++i) places_->Set(i, servers_[i]->address());
  }

  void Lose(std::size_t server) { servers_[server]->Stop(); }

  void Return(std::size_t server, milliseconds patience = hours(1)) {
    servers_[server] = std::make_unique<Serving>(key_, static_cast<std::uint32_t>(server),
                                                 GetParam(), /*returns=*/true, patience);
    places_->Set(server, servers_[server]->address());
  }

  ClientOptions Lasting(std::uint32_t worker, const Rule& rule) {
    ClientOptions options = Options(worker, rule);
    options.find = [places = places_](std::size_t server) { return places->Of(server); };
    return options;
  }

  /// The chief: it has given the first values, all `value`, and pulled them.
  std::unique_ptr<Client> Chief(float value, const Rule& rule) {
    auto client = Connect(Lasting(0, rule));
    EXPECT_TRUE(client->Write(0, Views(All(value))).ok());
    EXPECT_TRUE(client->StartAt(0).ok());
    EXPECT_TRUE(client->Run(kPull, {}).ok());
    return client;
  }

  std::unique_ptr<Client> Worker(std::uint32_t number, const Rule& rule) {
    auto client = Connect(Lasting(number, rule));
    EXPECT_TRUE(client->Run(kPull, {}).ok());
    return client;
  }

  /// What the client has and `more` on top goes to the servers.
  static Status Push(Client& client, float more, const Client::Exchange& exchange) {
    std::vector<std::vector<float>> tensors{Values(client, 0), Values(client, 1)};
    std::vector<std::span<const std::byte>> views;
    for (auto& tensor : tensors) {
      for (float& value : tensor) value += more;
      views.push_back(std::as_bytes(std::span(tensor)));
    }
    return client.Run(exchange, views);
  }

  static Status PushGradients(Client& client, float gradient) {
    const std::vector<float> first(300'000, gradient);
    const std::vector<float> second(10, gradient);
    const std::span<const std::byte> views[] = {std::as_bytes(std::span(first)),
                                                std::as_bytes(std::span(second))};
    return client.Run(kGradients, views);
  }

  static void ExpectAll(const Client& client, float value) {
    EXPECT_EQ(Values(client, 0), std::vector<float>(300'000, value));
    EXPECT_EQ(Values(client, 1), std::vector<float>(10, value));
  }

  std::shared_ptr<Places> places_ = std::make_shared<Places>();
};

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ServerTest);
INSTANTIATE_TEST_SUITE_P(Transports, ReturningServerTest,
                         ::testing::Values(Way::kSharedMemory, Way::kTcp, Way::kTls),
                         [](const auto& test) {
                           return test.param == Way::kSharedMemory ? "SharedMemory"
                                  : test.param == Way::kTcp        ? "Tcp"
                                                                   : "Tls";
                         });

TEST_P(ReturningServerTest, OneThatDiesBetweenExchangesGoesOnWithItsWorkersValues) {
  StartThatReturn(2);
  const auto client = Chief(1, {.workers = 1});
  ASSERT_TRUE(Push(*client, 4, kChange).ok());
  ASSERT_TRUE(Push(*client, 1, kChange).ok());
  EXPECT_EQ(client->version(), 2U);
  Lose(1);
  Return(1);
  ASSERT_TRUE(Push(*client, 2, kChange).ok());
  ExpectAll(*client, 1 + 4 + 1 + 2);
  EXPECT_EQ(client->version(), 3U);
  for (const std::size_t both : {0U, 1U}) Lose(both);
  for (const std::size_t both : {0U, 1U}) Return(both);
  ASSERT_TRUE(client->Run(kPull, {}).ok());
  ExpectAll(*client, 8);
  EXPECT_EQ(client->version(), 3U);
}

TEST_P(ReturningServerTest, TheNewestValuesAreTakenAndWhatAWorkerDidIsKept) {
  const Rule rule{.workers = 2};
  StartThatReturn(1);
  const auto old = Chief(1, rule);
  const auto newest = Worker(1, rule);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Push(*newest, 10, kChange).ok());
  Lose(0);
  ASSERT_TRUE(Push(*old, 0.5, kOverlapped).ok());
  Return(0);
  // It waits until both have come, though the old one may be there for long.
  ASSERT_TRUE(Push(*newest, 100, kChange).ok());
  ASSERT_TRUE(old->Run(kPull, {}).ok());
  ExpectAll(*old, 1 + 30 + 0.5 + 100);
  EXPECT_EQ(old->version(), 5U);
  const auto later = Worker(2, rule);
  ExpectAll(*later, 131.5);
}

TEST_P(ReturningServerTest, WhoDoesNotComeIsWaitedForOnlyAWhile) {
  const Rule rule{.workers = 3};
  StartThatReturn(1);
  const auto client = Chief(1, rule);
  Lose(0);
  Return(0, milliseconds(200));
  ASSERT_TRUE(Push(*client, 1, kChange).ok());
  ExpectAll(*client, 2);
}

// A worker that waits for a slower one knows that the server has combined its push.
TEST_P(ReturningServerTest, APushThatWaitsForOthersIsThereOnceAndNobodyWaitsForEver) {
  const Rule rule{.workers = 2};
  StartThatReturn(1);
  ClientOptions options = Lasting(0, rule);
  options.staleness = 0;
  const auto slow = Connect(options);
  ASSERT_TRUE(slow->Write(0, Views(All(1))).ok());
  ASSERT_TRUE(slow->StartAt(0).ok());
  ASSERT_TRUE(slow->Run(kPull, {}).ok());
  ASSERT_TRUE(Push(*slow, 1, {.push = Pushed::kChange}).ok());
  options.worker = 1;
  options.starts = false;
  const auto fast = Connect(options);
  ASSERT_TRUE(fast->Run(kPull, {}).ok());
  ASSERT_TRUE(Push(*fast, 2, kOverlapped).ok());
  while (servers_[0]->server().counters().pushes < 2) std::this_thread::yield();
  Lose(0);
  Return(0);
  ASSERT_TRUE(slow->Run(kPull, {}).ok());
  ExpectAll(*slow, 4);
  ASSERT_TRUE(fast->Run(kPull, {}).ok());
  ExpectAll(*fast, 4);
  ASSERT_TRUE(Push(*fast, 1, kChange).ok()) << "nobody else has pushed to this server";
  ExpectAll(*fast, 5);
}

/// Returns in the middle of a push, or soon after it; or when all has ended.
void AwaitSomePush(const Server& server, const std::atomic<bool>& ended) {
  const std::uint64_t before = server.counters().bytes_combined;
  while (!ended && server.counters().bytes_combined == before) std::this_thread::yield();
}

/// Loses the server at any moment of exchanges, which add 1 each.
void LoseAtAnyMoment(const std::atomic<bool>& ended, const std::function<void()>& lose) {
  while (!ended) lose();
}

TEST_P(ReturningServerTest, AtWhateverMomentItDiesTheOnlyWorkerLosesNothing) {
  for (const Client::Exchange& exchange : {kChange, kOverlapped}) {
    servers_.clear();
    StartThatReturn(2);
    const auto client = Chief(0, {.workers = 1});
    constexpr int kRounds = 60;
    std::atomic<bool> ended = false;
    std::thread killer([&] {
      LoseAtAnyMoment(ended, [&, losses = 0]() mutable {
        const std::size_t server = losses++ % 2;
        AwaitSomePush(servers_[server]->server(), ended);
        Lose(server);
        Return(server);
      });
    });
    for (int i = 0; i < kRounds; ++i) EXPECT_TRUE(Push(*client, 1, exchange).ok());
    ended = true;
    killer.join();
    ASSERT_TRUE(client->Run(kPull, {}).ok());
    ExpectAll(*client, kRounds);
    EXPECT_EQ(client->version(), kRounds);
  }
}

/// Breaks all connections of this process, as a network that fails: both ends stay.
void BreakConnections() {
  constexpr int kMostDescriptors = 1024;
  for (int fd = 0; fd < kMostDescriptors; ++fd) {
    sockaddr_storage peer{};
    socklen_t bytes = sizeof(peer);
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &bytes) == 0) {
      ::shutdown(fd, SHUT_RDWR);
    }
  }
}

TEST_P(ReturningServerTest, AtWhateverMomentConnectionsBreakAPushCountsOnce) {
  for (const Client::Exchange& exchange : {kChange, kOverlapped}) {
    servers_.clear();
    StartThatReturn(2);
    const auto client = Chief(0, {.workers = 1});
    constexpr int kRounds = 60;
    std::atomic<bool> ended = false;
    std::thread breaker([&] {
      for (std::size_t breaks = 0; !ended; ++breaks) {
        AwaitSomePush(servers_[breaks % 2]->server(), ended);
        BreakConnections();
      }
    });
    for (int i = 0; i < kRounds; ++i) EXPECT_TRUE(Push(*client, 1, exchange).ok());
    ended = true;
    breaker.join();
    ASSERT_TRUE(client->Run(kPull, {}).ok());
    ExpectAll(*client, kRounds);
    EXPECT_EQ(client->version(), kRounds);
    for (const auto& server : servers_) EXPECT_EQ(server->server().counters().pushes, kRounds);
  }
}

TEST_P(ReturningServerTest, TheOptimizersSlotsComeBackAsTheyWereLastCopied) {
  const Rule adam{.combiner = Combiner::kAdam,
                  .workers = 1,
                  .learning_rate = 0.1,
                  .beta_1 = 0.9,
                  .beta_2 = 0.999,
                  .epsilon = 1e-7};
  std::vector<float> ends;
  for (const auto& [losses, interval] : std::vector<std::pair<bool, milliseconds>>{
           {false, hours(1)}, {true, milliseconds(0)}, {true, hours(1)}}) {
    servers_.clear();
    StartThatReturn(2);
    ClientOptions options = Lasting(0, adam);
    options.copy_interval = interval;
    const auto client = Connect(options);
    ASSERT_TRUE(client->Write(0, Views(All(1))).ok());
    ASSERT_TRUE(client->StartAt(0).ok());
    ASSERT_TRUE(client->Run(kPull, {}).ok());
    for (const float gradient : {1.0F, -3.0F, 0.25F}) {
      ASSERT_TRUE(PushGradients(*client, gradient).ok());
      if (!losses) continue;
      Lose(1);
      Return(1);
    }
    EXPECT_EQ(client->version(), 3U);
    std::vector<std::vector<float>> slots = All(-1);
    std::vector<std::span<std::byte>> rooms;
    for (auto& tensor : slots) rooms.push_back(std::as_writable_bytes(std::span(tensor)));
    ASSERT_TRUE(client->Read(2, rooms).ok()) << "in the middle of a loss";
    ends.push_back(Values(*client, 0).back());
    ends.push_back(slots[0].back());
  }
  EXPECT_EQ(ends[0], ends[2]) << "a copy with each exchange: nothing was lost";
  EXPECT_EQ(ends[1], ends[3]);
  EXPECT_NE(ends[1], 0);
  EXPECT_EQ(ends[5], 0) << "the only copy was made at the beginning";
}

TEST_P(ReturningServerTest, WhereTheGiverDiesTheNextOneIsAsked) {
  const Rule rule{.workers = 2};
  StartThatReturn(1);
  const auto client = Chief(3, rule);
  Lose(0);
  Return(0);
  ClientOptions options = Lasting(7, rule);
  tfos::testing::RawClient giver(
      servers_[0]->address().port,
      {.protocol = kProtocol, .key = key_, .encryption = servers_[0]->address().encryption},
      {.connecting = 7, .accepting = 0});
  ASSERT_TRUE(giver.connected());
  Open open;
  open.rule = rule;
  open.gives = 1000;
  open.name = "worker:7 on host h";
  open.share = variables_;
  giver.Send(Encode(open));
  ASSERT_TRUE(Push(*client, 1, kOverlapped).ok());
  const std::string opened = Encode(Opened{.version = kNotStarted});
  EXPECT_EQ(giver.Read(opened.size()), opened) << "it has the newest";
  giver.Close();
  ASSERT_TRUE(client->Run(kPull, {}).ok());
  ExpectAll(*client, 4);
}

TEST_P(ReturningServerTest, AChiefThatComesAnewDoesNotOverwriteThem) {
  const Rule rule{.workers = 2};
  StartThatReturn(1);
  auto chief = Chief(1, rule);
  const auto worker = Worker(1, rule);
  ASSERT_TRUE(Push(*worker, 5, kChange).ok());
  chief.reset();
  Lose(0);
  Return(0);
  ASSERT_TRUE(Push(*worker, 1, kOverlapped).ok());
  const auto again = Connect(Lasting(0, rule));
  EXPECT_TRUE(again->started());
  ASSERT_TRUE(worker->Run(kPull, {}).ok());
  ASSERT_TRUE(again->Run(kPull, {}).ok());
  ExpectAll(*again, 7);
}

TEST_P(ReturningServerTest, WhereNobodyHasACopyTheChiefGivesTheFirstValues) {
  const Rule rule{.workers = 2};
  StartThatReturn(1);
  Chief(1, rule).reset();
  Lose(0);
  Return(0);
  std::thread other([&] { ExpectAll(*Worker(1, rule), 9); });
  const auto chief = Connect(Lasting(0, rule));
  EXPECT_FALSE(chief->started());
  ASSERT_TRUE(chief->Write(0, Views(All(9))).ok());
  ASSERT_TRUE(chief->StartAt(0).ok());
  other.join();
}

TEST_P(ReturningServerTest, FirstValuesAreForThoseThatHaveNone) {
  const Rule rule{.workers = 1};
  StartThatReturn(2);
  ASSERT_TRUE(Push(*Chief(1, rule), 5, {.push = Pushed::kChange}).ok());
  Lose(1);
  Return(1);
  const auto chief = Connect(Lasting(0, rule));
  EXPECT_FALSE(chief->started());
  ASSERT_TRUE(chief->Write(0, Views(All(9))).ok());
  ASSERT_TRUE(chief->StartAt(0).ok());
  ASSERT_TRUE(chief->Run(kPull, {}).ok());
  EXPECT_EQ(Values(*chief, 0).front(), 6) << "the other server was there all the time";
  EXPECT_EQ(Values(*chief, 1), std::vector<float>(10, 9));
}

TEST_P(ReturningServerTest, OneThatDiesAgainBeforeItHasValuesComesAgain) {
  const Rule rule{.workers = 2};
  StartThatReturn(1);
  const auto chief = Chief(1, rule);
  const auto worker = Worker(1, rule);
  Lose(0);
  Return(0);
  ASSERT_TRUE(Push(*chief, 1, kOverlapped).ok());
  while (servers_[0]->server().counters().workers < 1) std::this_thread::yield();
  Lose(0);
  Return(0);
  ASSERT_TRUE(Push(*worker, 1, kChange).ok());
  ASSERT_TRUE(chief->Run(kPull, {}).ok());
  ExpectAll(*chief, 3);
}

TEST_P(ReturningServerTest, OneThatStandsStillIsLeftForTheOneInItsPlace) {
  StartThatReturn(1);
  const auto client = Chief(1, {.workers = 1});
  servers_[0]->StandStill();
  ASSERT_TRUE(Push(*client, 4, kOverlapped).ok());
  const auto lost = std::move(servers_[0]);
  Return(0);
  ASSERT_TRUE(client->Run(kPull, {}).ok());
  ExpectAll(*client, 5);
  EXPECT_EQ(client->version(), 1U);
}

TEST_P(ReturningServerTest, WhoWaitsForItMayLeave) {
  StartThatReturn(1);
  ClientOptions options = Lasting(0, {.workers = 1});
  std::atomic<bool> interrupted = false;
  options.check = [&]() -> Status {
    if (interrupted) return {ErrorKind::kInterrupted, "somebody has had enough"};
    return {};
  };
  options.stall_after = milliseconds(50);
  auto client = Connect(options);
  ASSERT_TRUE(client->Write(0, Views(All(1))).ok());
  ASSERT_TRUE(client->StartAt(0).ok());
  Lose(0);
  ::testing::internal::CaptureStdout();  // The log, as nobody has set it up.
  ASSERT_TRUE(client->Run({.pull = true, .overlapped = true}, {}).ok());
  interrupted = true;
  EXPECT_THAT(client->Run(kPull, {}).ToString(), HasSubstr("had enough"));
  client.reset();
  EXPECT_THAT(::testing::internal::GetCapturedStdout(),
              HasSubstr("has lost parameter server ps:0 on host h, and waits"));
}

}  // namespace
}  // namespace tfos::parameter_server
