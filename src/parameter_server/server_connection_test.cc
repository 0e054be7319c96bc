// Connections to a parameter server: strangers that want one, and what happens when one is lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "base/process/unique_fd.h"
#include "net/handshake/acceptor.h"
#include "net/socket.h"
#include "parameter_server/client.h"
#include "parameter_server/server.h"
#include "parameter_server/server_fixture.h"
#include "testing/no_threads.h"
#include "testing/squatter.h"

namespace tfos::parameter_server {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_EQ(client.status().kind(), ErrorKind::kNoResources);
  EXPECT_NE(client.status().ToString().find("start the thread"), std::string::npos);
}

// It has the values of a whole training: it must outlive a moment without descriptors.
// Covers: descriptors exhausted / parameter servers
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
  EXPECT_NE(status.ToString().find("or the network was cut"), std::string::npos)
      << "it knows of the connection alone: " << status.ToString();
  EXPECT_EQ(client->Run({.pull = true}, {}).ToString(), status.ToString()) << "and it stays so";
  EXPECT_FALSE(slow->Run({.pull = true}, {}).ok());
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
  const std::string name = LocalName(key, "test", 0, server.address().port);
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
  const std::string name = LocalName(key, "test", 0, server.address().port);
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
  EXPECT_EQ(LocalName(key, "cluster", 1, 2222), LocalName(key, "cluster", 1, 2222));
  EXPECT_NE(LocalName(key, "cluster", 1, 2222), LocalName(key, "cluster", 2, 2222));
  EXPECT_NE(LocalName(key, "cluster", 1, 2222), LocalName(key, "cluster", 1, 2223));
  EXPECT_NE(LocalName(key, "cluster", 1, 2222), LocalName(key, "other", 1, 2222));
  EXPECT_NE(LocalName(key, "cluster", 1, 2222), LocalName(*Secret::Generate(), "cluster", 1, 2222));
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

}  // namespace
}  // namespace tfos::parameter_server
