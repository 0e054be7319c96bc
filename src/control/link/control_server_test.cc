#include "control/link/control_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/crypto/purpose.h"
#include "base/logging.h"
#include "control/ask/protocols.h"
#include "testing/raw_client.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using tfos::testing::RawClient;

/// Answers every request with 200, and agents with what they say.
class Echo final : public ControlService {
 public:
  asio::awaitable<HttpAnswer> Get(std::string, std::string) override {
    HttpAnswer answer;  // named: GCC 12 destroys aggregates in a co_return twice
    co_return answer;
  }
  Status OnMessage(AgentConnection& agent, std::string_view text) override {
    EXPECT_EQ(agent.node_id(), 3U);
    agent.MarkIdentified();
    agent.Send({std::string(text)});
    return Status::Ok();
  }
  void OnClosed(AgentConnection&) override {}
};

/// A server in a thread of its own that never gives up on a peer by itself.
class ControlServerTest : public ::testing::Test {
 protected:
  ControlServerTest() {
    SetUpLogging("control server test", "INFO");
    ControlServer::Options options;
    options.bind_address = "127.0.0.1";
    options.identification_timeout = std::chrono::hours(1);
    options.max_strangers = 2;
    options.token = token_;
    auto server = ControlServer::Listen(io_.get_executor(), options, service_);
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~ControlServerTest() override {
    asio::post(io_, [this] { io_.stop(); });
    thread_.join();
  }

  std::string ReadKey() const { return KeyFor(token_, Purpose::kRead).ToHex(); }

  RawClient Agent(net::Encryption encryption = net::Encryption::kBetweenHosts) const {
    return RawClient(server_->port(),
                     {.protocol = kAgentProtocol,
                      .key = KeyFor(token_, Purpose::kJoin),
                      .encryption = encryption},
                     {.connecting = 3});
  }

  const Secret token_ = Secret::Generate().value();
  Echo service_;
  asio::io_context io_{1};
  std::unique_ptr<ControlServer> server_;
  std::thread thread_;
};

TEST_F(ControlServerTest, AnAgentIsTakenEncryptedToo) {
  RawClient agent = Agent(net::Encryption::kAlways);
  EXPECT_THAT(agent.Upgrade("/v1/agent"), StartsWith("HTTP/1.1 101"));
  // More than one batch of TLS.
  const std::string text(200'000, 'x');
  for (int i = 0; i < 3; ++i) {
    agent.SendText(text);
    EXPECT_EQ(agent.ReadText(), text);
  }
}

TEST_F(ControlServerTest, AnAgentGetsNoPages) { EXPECT_THAT(Agent().Get("/"), IsEmpty()); }

TEST_F(ControlServerTest, OneStrangerMoreCostsTheOldestItsPlace) {
  RawClient oldest(server_->port());
  RawClient second(server_->port());
  RawClient third(server_->port());
  // Connections are accepted in the order in which they came, so all three were.
  EXPECT_THAT(third.Get("/", ReadKey()), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(oldest.Get("/", ReadKey()), IsEmpty());
  EXPECT_THAT(second.Get("/", ReadKey()), StartsWith("HTTP/1.1 200"));
}

TEST_F(ControlServerTest, WhoHasAKeyIsNoStranger) {
  RawClient first(server_->port());
  EXPECT_THAT(first.Get("/", ReadKey()), StartsWith("HTTP/1.1 200"));
  RawClient agent = Agent();
  EXPECT_THAT(agent.Upgrade("/v1/agent"), StartsWith("HTTP/1.1 101"));
  RawClient stranger(server_->port());
  RawClient another(server_->port());
  EXPECT_THAT(another.Get("/", ReadKey()), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(first.Get("/", ReadKey()), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(stranger.Get("/", ReadKey()), StartsWith("HTTP/1.1 200"));
}

TEST_F(ControlServerTest, StrangersDoNotFillTheLog) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(RawClient(server_->port()).Get("/", ""), StartsWith("HTTP/1.1 401"));
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = log.find("the key", at)) != std::string::npos; ++at) ++lines;
  EXPECT_GE(lines, 1u);
  EXPECT_LE(lines, 40u) << log;  // two portions when the clock's turn comes in between
}

}  // namespace
}  // namespace tfos::control
