// An active attacker between a worker and a parameter server on TLS. The server takes nothing that
// the worker has not pushed, the worker gets no other values, and each end is told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "net/listen.h"
#include "parameter_server/client.h"
#include "parameter_server/server.h"
#include "testing/middle_man.h"
#include "testing/raw_client.h"
#include "testing/tampering.h"

namespace tfos::parameter_server {
namespace {

using ::testing::HasSubstr;
using tfos::testing::ChangeTheLast;
using tfos::testing::Downgrades;
using tfos::testing::MiddleMan;
using tfos::testing::Overhear;
using tfos::testing::OverheardMessage;
using tfos::testing::SaidToServer;
using tfos::testing::Tampering;
using tfos::testing::Tamperings;
using Direction = MiddleMan::Direction;

constexpr std::chrono::seconds kLong(60);
/// For a worker whose connections close in each handshake: it tries until then.
constexpr std::chrono::milliseconds kShort(500);
constexpr std::size_t kElements = 100;

/// Server `number` in a thread.
class Serving {
 public:
  Serving(const Secret& key, std::uint32_t number, net::Encryption encryption) {
    auto listener = net::ListenTcp("127.0.0.1", 0, 0);
    EXPECT_TRUE(listener.ok());
    port_ = listener->port;
    auto server = Server::Create({.key = key,
                                  .number = number,
                                  .listener = std::move(listener->fd),
                                  .local_name = "",
                                  .encryption = encryption});
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(*server);
    thread_ = std::thread([this] { EXPECT_TRUE(server_->Run().ok()); });
  }
  ~Serving() {
    server_->Stop();
    thread_.join();
  }

  std::uint16_t port() const { return port_; }
  Server& server() { return *server_; }

 private:
  std::uint16_t port_ = 0;
  std::unique_ptr<Server> server_;
  std::thread thread_;
};

class TamperedServerTest : public ::testing::Test {
 protected:
  Result<std::unique_ptr<Client>> Connect(std::uint16_t port, std::uint32_t worker,
                                          std::chrono::milliseconds connect_timeout = kLong) const {
    ClientOptions options;
    options.servers = {{.name = "ps:0 on host h",
                        .address = "127.0.0.1",
                        .port = port,
                        .local_name = "",
                        .encryption = net::Encryption::kAlways}};
    options.variables = {{DType::kFloat32, kElements}};
    options.worker = worker;
    options.name = "worker:1 on host h";
    options.starts = worker == 0;
    options.key = key_;
    options.connect_timeout = connect_timeout;
    return Client::Connect(options);
  }

  static Client::Tensors ViewOf(const std::vector<float>& tensor,
                                std::vector<std::span<const std::byte>>& view) {
    view = {std::as_bytes(std::span(tensor))};
    return view;
  }

  static std::vector<float> ValuesOf(const Client& client) {
    std::vector<float> values(kElements);
    std::memcpy(values.data(), client.values(0).data(), client.values(0).size());
    return values;
  }

  /// Gives the server its first values: zeros.
  void Begin(std::uint16_t port) const {
    auto first = Connect(port, 0);
    ASSERT_TRUE(first.ok()) << first.status().ToString();
    std::vector<std::span<const std::byte>> view;
    ASSERT_TRUE((*first)->Write(0, ViewOf(std::vector<float>(kElements), view)).ok());
    ASSERT_TRUE((*first)->StartAt(0).ok());
  }

  /// A worker that gets the values, adds 1 to each, and gets them again.
  Status Work(std::uint16_t port, std::chrono::milliseconds connect_timeout = kLong) const {
    TFOS_ASSIGN_OR_RETURN(const auto client, Connect(port, 1, connect_timeout));
    TFOS_RETURN_IF_ERROR(client->Run({.pull = true}, {}));
    std::vector<float> values = ValuesOf(*client);
    const float before = values[0];
    EXPECT_EQ(values, std::vector<float>(kElements, before)) << "of a whole push";
    for (float& value : values) ++value;
    std::vector<std::span<const std::byte>> view;
    TFOS_RETURN_IF_ERROR(
        client->Run({.push = Pushed::kChange, .pull = true}, ViewOf(values, view)));
    EXPECT_EQ(ValuesOf(*client), std::vector<float>(kElements, before + 1));
    return {};
  }

  /// What a worker and the server say to each other.
  std::vector<OverheardMessage> WorkIn(const Serving& serving) const {
    return Overhear(serving.port(), [&](std::uint16_t port) { EXPECT_TRUE(Work(port).ok()); });
  }

  /// What the server has.
  float Value(std::uint16_t port) const {
    const auto client = Connect(port, 2);
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    if (!client.ok()) return -1;
    EXPECT_TRUE((*client)->Run({.pull = true}, {}).ok());
    const std::vector<float> values = ValuesOf(**client);
    EXPECT_EQ(values, std::vector<float>(kElements, values[0]));
    return values[0];
  }

  const Secret key_ = Secret::Generate().value();
};

TEST_F(TamperedServerTest, NothingGetsThroughThatNobodyHasSent) {
  for (const net::Encryption encryption :
       {net::Encryption::kAlways, net::Encryption::kBetweenHosts}) {
    const Serving serving(key_, 0, encryption);
    Begin(serving.port());
    const auto overheard = Overhear(serving.port(), [&](std::uint16_t port) {
      const Status worked = Work(port);
      ASSERT_TRUE(worked.ok()) << worked.ToString();
    });
    float value = Value(serving.port());
    ASSERT_EQ(value, 1);
    std::vector<Tampering> tamperings = Downgrades(overheard);
    ASSERT_FALSE(tamperings.empty());
    if (encryption == net::Encryption::kAlways) {
      std::ranges::move(Tamperings(overheard, 2), std::back_inserter(tamperings));
    }
    for (const Tampering& tampering : tamperings) {
      {
        const MiddleMan middle_man(serving.port(), tampering.rule);
        EXPECT_FALSE(Work(middle_man.port(), kShort).ok()) << tampering.what;
      }
      // The push may have been whole before.
      const float now = Value(serving.port());
      EXPECT_TRUE(now == value || now == value + 1) << tampering.what << ": " << now;
      value = now;
    }
    EXPECT_TRUE(Work(serving.port()).ok()) << "others are served";
    EXPECT_EQ(Value(serving.port()), value + 1);
  }
}

// What the user reads.
TEST_F(TamperedServerTest, TheWorkerNamesTheServer) {
  const Serving serving(key_, 0, net::Encryption::kAlways);
  Begin(serving.port());
  const MiddleMan middle_man(serving.port(), ChangeTheLast(WorkIn(serving), Direction::kToClient));
  const Status worked = Work(middle_man.port());
  EXPECT_THAT(worked.ToString(), HasSubstr("parameter server ps:0 on host h"));
  EXPECT_THAT(worked.ToString(), HasSubstr("is not what the other end sent"));
}

TEST_F(TamperedServerTest, TheServerNamesTheWorkerOnce) {
  const Serving serving(key_, 0, net::Encryption::kAlways);
  Begin(serving.port());
  const std::vector<OverheardMessage> overheard = WorkIn(serving);
  ::testing::internal::CaptureStdout();  // The log, as nobody has set it up.
  {
    const MiddleMan middle_man(serving.port(), ChangeTheLast(overheard, Direction::kToServer));
    EXPECT_FALSE(Work(middle_man.port()).ok());
  }
  const std::string log = ::testing::internal::GetCapturedStdout();
  const std::string_view what =
      "worker:1 on host h: a record of TLS is not what the other end sent";
  const std::size_t at = log.find(what);
  ASSERT_NE(at, std::string::npos) << log;
  EXPECT_EQ(log.find(what, at + 1), std::string::npos) << log;
}

TEST_F(TamperedServerTest, WhatWasSaidOnceIsGoodForOneConnectionOnly) {
  Serving serving(key_, 0, net::Encryption::kAlways);
  Begin(serving.port());
  const std::string said = SaidToServer(WorkIn(serving));
  const std::uint64_t pushes = serving.server().counters().pushes;
  tfos::testing::RawClient again(serving.port());
  again.Send(said);
  again.ReadAll();
  EXPECT_EQ(Value(serving.port()), 1);
  EXPECT_EQ(serving.server().counters().pushes, pushes);
}

// Both servers have the key, so only the numbers tell them apart.
TEST_F(TamperedServerTest, AWorkerIsNotLedToAnotherServer) {
  for (const net::Encryption encryption :
       {net::Encryption::kAlways, net::Encryption::kBetweenHosts}) {
    Serving other(key_, 1, encryption);
    const MiddleMan middle_man(other.port(), [](auto...) { return true; });
    const auto client = Connect(middle_man.port(), 0);
    EXPECT_EQ(client.status().kind(), ErrorKind::kBadInput) << "it need not try again";
    EXPECT_THAT(client.status().ToString(), HasSubstr("the other end refuses this one"));
    EXPECT_EQ(other.server().counters().workers, 0U);
  }
}

}  // namespace
}  // namespace tfos::parameter_server
