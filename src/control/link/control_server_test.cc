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

#include "base/logging.h"
#include "testing/raw_client.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using tfos::testing::RawClient;

const std::string kToken = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

/// Answers every request with 200.
class Echo final : public ControlService {
 public:
  asio::awaitable<HttpAnswer> Get(std::string, std::string) override {
    HttpAnswer answer;  // named: GCC 12 destroys aggregates in a co_return twice
    co_return answer;
  }
  Status OnMessage(AgentConnection&, std::string_view) override { return Status::Ok(); }
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
    auto server =
        ControlServer::Listen(io_.get_executor(), options, *Secret::FromHex(kToken), service_);
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~ControlServerTest() override {
    asio::post(io_, [this] { io_.stop(); });
    thread_.join();
  }

  Echo service_;
  asio::io_context io_{1};
  std::unique_ptr<ControlServer> server_;
  std::thread thread_;
};

TEST_F(ControlServerTest, OneStrangerMoreCostsTheOldestItsPlace) {
  RawClient oldest(server_->port());
  RawClient second(server_->port());
  RawClient third(server_->port());
  // Connections are accepted in the order in which they came, so all three were.
  EXPECT_THAT(third.Get("/", kToken), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(oldest.Get("/", kToken), IsEmpty());
  EXPECT_THAT(second.Get("/", kToken), StartsWith("HTTP/1.1 200"));
}

TEST_F(ControlServerTest, WhoKnowsTheTokenIsNoStranger) {
  RawClient first(server_->port());
  EXPECT_THAT(first.Get("/", kToken), StartsWith("HTTP/1.1 200"));
  RawClient agent(server_->port());
  EXPECT_THAT(agent.Upgrade("/v1/agent", kToken), StartsWith("HTTP/1.1 101"));
  RawClient stranger(server_->port());
  RawClient another(server_->port());
  EXPECT_THAT(another.Get("/", kToken), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(first.Get("/", kToken), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(stranger.Get("/", kToken), StartsWith("HTTP/1.1 200"));
}

TEST_F(ControlServerTest, StrangersDoNotFillTheLog) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(RawClient(server_->port()).Get("/", ""), StartsWith("HTTP/1.1 401"));
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = log.find("token", at)) != std::string::npos; ++at) ++lines;
  EXPECT_GE(lines, 1u);
  EXPECT_LE(lines, 40u) << log;  // two portions when the clock's turn comes in between
}

}  // namespace
}  // namespace tfos::control
