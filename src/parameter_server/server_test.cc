#include "parameter_server/server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <latch>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "base/format.h"
#include "net/handshake/acceptor.h"
#include "net/listen.h"
#include "net/socket.h"
#include "parameter_server/client.h"
#include "testing/no_threads.h"
#include "testing/squatter.h"

namespace tfos::parameter_server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

enum class Way { kSharedMemory, kTcp, kTls };

/// A server in a thread, until it is stopped.
class Serving {
 public:
  Serving(const Secret& key, std::uint32_t number, Way way) {
    auto listener = net::ListenTcp("127.0.0.1", 0, 0);
    EXPECT_TRUE(listener.ok());
    address_ = {
        .name = fmt::format("ps:{} on host h", number),
        .address = "127.0.0.1",
        .port = listener->port,
        .local_name =
            way == Way::kSharedMemory ? fmt::format("tfos-ps-test-{}", listener->port) : "",
        .encryption = way == Way::kTls ? net::Encryption::kAlways : net::Encryption::kBetweenHosts};
    auto server = Server::Create({.key = key,
                                  .number = number,
                                  .listener = std::move(listener->fd),
                                  .local_name = address_.local_name,
                                  .encryption = address_.encryption});
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
    thread_ = std::thread([this] { EXPECT_TRUE(server_->Run().ok()); });
  }
  ~Serving() { Stop(); }

  /// As a process that dies: its sockets are closed.
  void Stop() {
    if (!thread_.joinable()) return;
    server_->Stop();
    thread_.join();
    server_.reset();
  }

  const ServerAddress& address() const { return address_; }
  Server& server() { return *server_; }

 private:
  ServerAddress address_;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

class ServerTest : public ::testing::TestWithParam<Way> {
 protected:
  ServerTest() : key_(*Secret::Generate()) {}

  void Start(std::uint32_t servers) {
    for (std::uint32_t i = 0; i < servers; ++i) {
      servers_.push_back(std::make_unique<Serving>(key_, i, GetParam()));
    }
  }

  ClientOptions Options(std::uint32_t worker, const Rule& rule = {}) {
    ClientOptions options;
    for (const auto& server : servers_) options.servers.push_back(server->address());
    options.variables = variables_;
    options.rule = rule;
    options.worker = worker;
    options.name = fmt::format("worker:{} on host h", worker);
    options.starts = worker == 0;
    options.key = key_;
    options.connect_timeout = seconds(60);
    return options;
  }

  std::unique_ptr<Client> Connect(const ClientOptions& options) {
    auto client = Client::Connect(options);
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    if (!client.ok()) return nullptr;
    EXPECT_EQ((*client)->local_servers() > 0, GetParam() == Way::kSharedMemory);
    return std::move(*client);
  }

  /// A client that has given the servers their first values: all `value`.
  std::unique_ptr<Client> First(float value, const Rule& rule = {}) {
    auto client = Connect(Options(0, rule));
    EXPECT_FALSE(client->started());
    const auto tensors = All(value);
    EXPECT_TRUE(client->Write(0, Views(tensors)).ok());
    EXPECT_TRUE(client->StartAt(0).ok());
    EXPECT_TRUE(client->started());
    return client;
  }

  std::vector<std::vector<float>> All(float value) const {
    std::vector<std::vector<float>> tensors;
    for (const Variable& variable : variables_) tensors.emplace_back(variable.elements, value);
    return tensors;
  }

  /// Valid as long as the tensors, until it is called again.
  Client::Tensors Views(const std::vector<std::vector<float>>& tensors) {
    views_.clear();
    for (const auto& tensor : tensors) views_.push_back(std::as_bytes(std::span(tensor)));
    return views_;
  }

  static std::vector<float> Values(const Client& client, std::size_t variable) {
    const auto bytes = client.values(variable);
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

  Secret key_;
  std::vector<Variable> variables_{{DType::kFloat32, 300'000}, {DType::kFloat32, 10}};
  std::vector<std::unique_ptr<Serving>> servers_;
  std::vector<std::span<const std::byte>> views_;
};

INSTANTIATE_TEST_SUITE_P(Transports, ServerTest,
                         ::testing::Values(Way::kSharedMemory, Way::kTcp, Way::kTls),
                         [](const auto& test) {
                           switch (test.param) {
                             case Way::kSharedMemory:
                               return "SharedMemory";
                             case Way::kTcp:
                               return "Tcp";
                             default:
                               return "Tls";
                           }
                         });

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

TEST_P(ServerTest, AClientWithoutAThreadToSpareSaysSo) {
  Start(1);
  const auto first = Connect(Options(0));
  const auto values = All(1);
  ASSERT_TRUE(first->Write(0, Views(values)).ok());
  const Server& server = servers_[0]->server();
  std::optional<tfos::testing::NoThreads> none;
  ClientOptions options = Options(1);
  options.check = [&]() -> Status {
    // Only once the server knows it.
    if (none || server.counters().workers < 2) return {};
    none.emplace();
    return first->StartAt(0);
  };
  const auto client = Client::Connect(options);
  EXPECT_TRUE(none.has_value());
  none.reset();
  ASSERT_FALSE(client.ok());
  EXPECT_EQ(client.status().kind(), ErrorKind::kRetryLater);
  EXPECT_NE(client.status().ToString().find("start the thread"), std::string::npos);
}

// It has the values of a whole training: it must outlive a moment without descriptors.
TEST_P(ServerTest, WaitsUntilThereAreDescriptorsForANewConnection) {
  Start(1);
  const auto first = First(3);
  const Server& server = servers_[0]->server();
  UniqueFd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(servers_[0]->address().port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  // The limit bounds numbers of descriptors, and a new one gets the lowest that is free.
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(UniqueFd(::dup(stranger.get())).get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const int connected =
      ::connect(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  while (server.counters().accept_pauses == 0) std::this_thread::yield();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(connected, 0);
  EXPECT_NE(Connect(Options(1)), nullptr);
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

TEST_P(ServerTest, AServerThatIsGoneFailsWhatIsUnderWayAndIsNamed) {
  Start(2);
  const auto first = First(0);
  ClientOptions options = Options(1);
  options.staleness = 0;
  const auto client = Connect(options);
  options.worker = 2;
  const auto slow = Connect(options);
  const auto tensors = All(1);
  ASSERT_TRUE(slow->Run({.push = Pushed::kValues}, Views(tensors)).ok());
  // Waits for the slow one, until the server is gone.
  ASSERT_TRUE(client->Run({.push = Pushed::kValues, .overlapped = true}, Views(tensors)).ok());
  servers_[1]->Stop();
  servers_[0]->Stop();
  const Status status = client->Run({.pull = true}, {});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.kind(), ErrorKind::kReconnect) << status.ToString();
  EXPECT_NE(status.ToString().find("on host h"), std::string::npos) << status.ToString();
  EXPECT_EQ(client->Run({.pull = true}, {}).ToString(), status.ToString()) << "and it stays so";
  EXPECT_FALSE(slow->Run({.pull = true}, {}).ok());
}

TEST_P(ServerTest, WorkersThatWantDifferentThingsAreTold) {
  Start(1);
  const auto first = First(0);
  ClientOptions options = Options(1, {.combiner = Combiner::kUpdateMean});
  EXPECT_NE(Client::Connect(options).status().ToString().find("worker:1 on host h wants them"),
            std::string::npos);
  options = Options(1);
  options.variables[1].elements = 11;
  const auto other = Client::Connect(options);
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.status().kind(), ErrorKind::kBadInput);
  EXPECT_NE(other.status().ToString().find("other variables"), std::string::npos);
  const auto tensors = All(1);
  EXPECT_EQ(first->Run({.push = Pushed::kValues}, Views(tensors).first(1)).kind(),
            ErrorKind::kBadInput);
}

TEST_P(ServerTest, StrangersGetNowhere) {
  Start(1);
  const auto first = First(0);
  ClientOptions options = Options(1);
  options.key = *Secret::Generate();
  options.connect_timeout = seconds(5);
  EXPECT_FALSE(Client::Connect(options).ok());
  // A silent client keeps nobody from coming.
  const auto silent = net::ConnectTcp("127.0.0.1", servers_[0]->address().port, {});
  ASSERT_TRUE(silent.ok());
  const auto other = Connect(Options(2));
  EXPECT_TRUE(other->Run({.pull = true}, {}).ok());
}

TEST_P(ServerTest, SilentStrangersDelayNobody) {
  Start(1);
  const auto first = First(0);
  const ServerAddress& address = servers_[0]->address();
  std::vector<UniqueFd> silent;
  // More than other ports let wait: all workers of a cluster may come at the same moment.
  for (std::size_t i = 0; i < net::Acceptor::kMostStrangers + 50; ++i) {
    if (GetParam() == Way::kSharedMemory) {
      auto stranger = net::ConnectUnix(address.local_name, {});
      ASSERT_TRUE(stranger.ok() && stranger->has_value());
      silent.push_back(std::move(**stranger));
    } else {
      auto stranger = net::ConnectTcp("127.0.0.1", address.port, {});
      ASSERT_TRUE(stranger.ok()) << stranger.status().ToString();
      silent.push_back(std::move(stranger).value());
    }
  }
  const auto other = Connect(Options(1));
  EXPECT_TRUE(other->Run({.pull = true}, {}).ok());
  // None was given up before.
  for (const UniqueFd& stranger : silent) {
    std::byte none{};
    const auto got = net::Receive(stranger.get(), std::span(&none, 1), nullptr);
    EXPECT_TRUE(got.ok() && got->blocked);
  }
}

// The server's name is free on all hosts but its own, and any user can read it there.
TEST(SquatterTest, AnotherUsersSocketIsPassedOver) {
  const Secret key = *Secret::Generate();
  const Serving server(key, 0, Way::kTcp);
  const std::string name = LocalName(key, "test", 0);
  const tfos::testing::Squatter squatter(name, 16);
  ClientOptions options;
  options.servers = {server.address()};
  options.servers[0].local_name = name;
  options.variables = {{DType::kFloat32, 10}};
  options.name = "worker:0 on host h";
  options.starts = true;
  options.key = key;
  ::testing::internal::CaptureStdout();  // The log, as nobody has set it up.
  const auto client = Client::Connect(options);
  const std::string log = ::testing::internal::GetCapturedStdout();
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  EXPECT_EQ((*client)->local_servers(), 0U);
  EXPECT_THAT(log, HasSubstr("is passed over, and TCP taken"));
  EXPECT_THAT(log, HasSubstr("belongs to user 65534"));
}

TEST(SquatterTest, NorDoesOneWithAFullQueueKeepAnybodyWaiting) {
  const Secret key = *Secret::Generate();
  const Serving server(key, 0, Way::kTcp);
  const std::string name = LocalName(key, "test", 0);
  const tfos::testing::Squatter squatter(name, 0);
  const auto fills = net::ConnectUnix(name, {});
  ASSERT_TRUE(fills.ok() && fills->has_value());
  ClientOptions options;
  options.servers = {server.address()};
  options.servers[0].local_name = name;
  options.variables = {{DType::kFloat32, 10}};
  options.name = "worker:0 on host h";
  options.starts = true;
  options.key = key;
  const auto client = Client::Connect(options);
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  EXPECT_EQ((*client)->local_servers(), 0U);
}

TEST(LocalNameTest, OnlyTheKeyTellsIt) {
  const Secret key = *Secret::Generate();
  EXPECT_EQ(LocalName(key, "cluster", 1), LocalName(key, "cluster", 1));
  EXPECT_NE(LocalName(key, "cluster", 1), LocalName(key, "cluster", 2));
  EXPECT_NE(LocalName(key, "cluster", 1), LocalName(key, "other", 1));
  EXPECT_NE(LocalName(key, "cluster", 1), LocalName(*Secret::Generate(), "cluster", 1));
}

TEST_P(ServerTest, WhoEncryptsLessThanTheServerIsNotLetIn) {
  Start(1);
  const bool tls = GetParam() == Way::kTls;
  ClientOptions options = Options(0);
  options.servers[0].encryption = tls ? net::Encryption::kNever : net::Encryption::kAlways;
  const auto client = Client::Connect(options);
  if (!tls) {
    EXPECT_TRUE(client.ok()) << "more is taken, and nothing leaves the host over the socket: "
                             << client.status().ToString();
    return;
  }
  EXPECT_EQ(client.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(client.status().ToString(), HasSubstr("spark.tfos.encrypt"));
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
