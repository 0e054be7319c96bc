#include "control/link/server/control_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "base/crypto/purpose.h"
#include "base/logging.h"
#include "control/messages/protocols.h"
#include "testing/raw_client.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using tfos::testing::RawClient;

/// Answers every request with 200, and agents with what they say.
class Echo final : public ControlService {
 public:
  asio::awaitable<HttpAnswer> Get(std::string, std::string, Asker) override {
    HttpAnswer answer;  // named: GCC 12 destroys aggregates in a co_return twice
    co_return answer;
  }
  asio::awaitable<HttpAnswer> Post(std::string target, std::string query) override {
    return Get(std::move(target), std::move(query), Asker::kOperator);
  }
  Status OnMessage(AgentConnection& agent, std::string_view text) override {
    EXPECT_EQ(agent.node_id(), 3);
    agent.MarkIdentified();
    agent.Send({std::string(text)});
    return Status::Ok();
  }
  std::optional<int> AskForTunnel(int number) override {
    if (!has_tensorboard) return std::nullopt;
    tunnel.set_value(number);
    return 3;
  }
  void OnClosed(AgentConnection&) override {
    ++closed;
    closed.notify_all();
  }

  std::atomic<int> closed = 0;
  std::atomic<bool> has_tensorboard = false;
  std::promise<int> tunnel;  ///< That was asked for.
};

/// A server in a thread of its own that never gives up on a peer by itself.
class ControlServerTest : public ::testing::Test {
 protected:
  ControlServerTest() {
    SetUpLogging("control server test", "INFO");
    ControlServer::Options options;
    options.bind_address = "127.0.0.1";
    options.identification_timeout = std::chrono::hours(1);
    options.max_handshakes = 2;
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

  net::Party AgentsParty(net::Encryption encryption = net::Encryption::kBetweenHosts) const {
    return {.protocol = kAgentProtocol,
            .key = KeyFor(token_, Purpose::kJoin),
            .encryption = encryption};
  }

  RawClient Agent(net::Encryption encryption = net::Encryption::kBetweenHosts) const {
    return RawClient(server_->port(), AgentsParty(encryption), {.connecting = 3});
  }

  /// What a browser gets where the node of TensorBoard answers this.
  std::string Shown(const std::string& answer) {
    service_.has_tensorboard = true;
    std::future<int> asked = service_.tunnel.get_future();
    RawClient browser(server_->port());
    browser.Send("GET /tensorboard/ HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " + ReadKey() +
                 "\r\n\r\n");
    net::Party party = AgentsParty();
    party.protocol = kTunnelProtocol;
    RawClient tunnel(server_->port(), party,
                     {.connecting = 3, .generation = static_cast<std::uint32_t>(asked.get())});
    tunnel.ReadHeaders();
    tunnel.Send(answer);
    tunnel.Close();
    return browser.ReadAll();
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

TEST_F(ControlServerTest, AnAgentThatReadsNothingIsDroppedAndOthersAreServed) {
  RawClient silent = Agent();
  RawClient other = Agent();
  for (RawClient* const agent : {&silent, &other}) {
    EXPECT_THAT(agent->Upgrade("/v1/agent"), StartsWith("HTTP/1.1 101"));
  }
  const std::string text(std::size_t{1} << 20, 'x');
  ::testing::internal::CaptureStderr();
  // More than may wait for it, as the system keeps some, too.
  for (int i = 0; i < 64; ++i) {
    silent.SendText(text);
    other.SendText("still here");
    EXPECT_EQ(other.ReadText(), "still here");
  }
  service_.closed.wait(0);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("it has left 16 MiB of messages unread"));
  other.SendText("and now");
  EXPECT_EQ(other.ReadText(), "and now");
  EXPECT_EQ(service_.closed, 1);
}

TEST_F(ControlServerTest, AnAgentGetsNoPages) { EXPECT_THAT(Agent().Get("/"), IsEmpty()); }

TEST_F(ControlServerTest, WithoutATensorBoardItsPageSaysSo) {
  const std::string answer = RawClient(server_->port()).Get("/tensorboard/", ReadKey());
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(answer, HasSubstr("TensorBoard does not listen"));
  EXPECT_THAT(RawClient(server_->port()).Get("/tensorboard/"), StartsWith("HTTP/1.1 401"));
}

TEST_F(ControlServerTest, TheKeyForTensorBoardBecomesACookie) {
  const std::string answer = RawClient(server_->port()).Get("/tensorboard/?key=" + ReadKey());
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(answer, HasSubstr("url=./\""));
  EXPECT_THAT(answer, HasSubstr("\r\nSet-Cookie: tfos-"));
}

/// An agent opens a connection for it, over which request and answer go.
TEST_F(ControlServerTest, TensorBoardIsShownThroughItsAgent) {
  service_.has_tensorboard = true;
  std::future<int> asked = service_.tunnel.get_future();
  RawClient browser(server_->port());
  browser.Send(
      "POST /tensorboard/data/x HTTP/1.1\r\nContent-Length: 4\r\nHost: h\r\n"
      "Authorization: Bearer " +
      ReadKey() + "\r\nCookie: a=b\r\n\r\nbody");
  const int number = asked.get();
  net::Party party = AgentsParty();
  party.protocol = kTunnelProtocol;
  // Not of the node that was asked: it is closed.
  const auto generation = static_cast<std::uint32_t>(number);
  RawClient other(server_->port(), party, {.connecting = 4, .generation = generation});
  EXPECT_THAT(other.ReadAll(), IsEmpty());
  RawClient tunnel(server_->port(), party, {.connecting = 3, .generation = generation});
  const std::string request = tunnel.ReadHeaders();
  EXPECT_THAT(request, StartsWith("POST /tensorboard/data/x HTTP/1.1\r\n"));
  EXPECT_THAT(request, HasSubstr("Connection: close"));
  EXPECT_THAT(request, Not(HasSubstr("Authorization")));
  EXPECT_THAT(request, Not(HasSubstr("Cookie")));
  EXPECT_EQ(tunnel.Read(4), "body");
  const std::string body(300'000, 'x');
  tunnel.Send("HTTP/1.1 200 OK\r\n\r\n" + body);
  tunnel.Close();
  EXPECT_EQ(browser.ReadAll(), "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body);
}

/// A node can't change the page through it, nor get the requests that follow.
TEST_F(ControlServerTest, HeadersOfTensorBoardThatActBeyondItAreLeftOut) {
  const std::string harmless = "Content-Type: text/html\r\nContent-Length: 4\r\n";
  const std::string harmful =
      "set-cookie: a=1; Path=/\r\nSet-Cookie: b=2\r\nClear-Site-Data: \"*\"\r\n"
      "Service-Worker-Allowed: /\r\nStrict-Transport-Security: max-age=9\r\nAlt-Svc: h2=\":1\"\r\n"
      "NEL: {}\r\nReport-To: {}\r\nAccept-CH: DPR\r\n";
  EXPECT_EQ(Shown("HTTP/1.1 103 Early Hints\r\n" + harmful + "\r\nHTTP/1.1 200 OK\r\n" + harmless +
                  "Connection: keep-alive\r\n" + harmful + "\r\nbody"),
            "HTTP/1.1 103 Early Hints\r\nConnection: close\r\n\r\nHTTP/1.1 200 OK\r\n" + harmless +
                "Connection: close\r\n\r\nbody");
}

TEST_F(ControlServerTest, WhatIsNoAnswerOfTensorBoardIsNotShown) {
  EXPECT_THAT(Shown("<script>\r\n\r\n"), IsEmpty());
}

TEST_F(ControlServerTest, OfTooLongAHeadOfTensorBoardNothingIsShown) {
  EXPECT_THAT(Shown("HTTP/1.1 200 OK\r\nA: " + std::string(70'000, 'a') + "\r\n\r\n"), IsEmpty());
}

TEST_F(ControlServerTest, TensorBoardGetsNoServiceWorker) {
  service_.has_tensorboard = true;
  RawClient browser(server_->port());
  // Of a script at this address, a worker would have the whole page, without asking for it.
  browser.Send(
      "GET /tensorboard HTTP/1.1\r\nHost: h\r\nService-Worker: script\r\nAuthorization: Bearer " +
      ReadKey() + "\r\n\r\n");
  EXPECT_THAT(browser.ReadAll(), StartsWith("HTTP/1.1 403"));
}

TEST_F(ControlServerTest, OneStrangerMoreCostsTheOldestItsPlace) {
  RawClient oldest(server_->port());
  RawClient second(server_->port());
  RawClient third(server_->port());
  // Connections are accepted in the order in which they came, so all three were.
  EXPECT_THAT(third.Get("/v1/status", ReadKey()), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(oldest.Get("/v1/status", ReadKey()), IsEmpty());
  EXPECT_THAT(second.Get("/v1/status", ReadKey()), StartsWith("HTTP/1.1 200"));
}

TEST_F(ControlServerTest, WhoHasAKeyIsNoStranger) {
  RawClient first(server_->port());
  EXPECT_THAT(first.Get("/v1/status", ReadKey()), StartsWith("HTTP/1.1 200"));
  RawClient agent = Agent();
  EXPECT_THAT(agent.Upgrade("/v1/agent"), StartsWith("HTTP/1.1 101"));
  RawClient stranger(server_->port());
  RawClient another(server_->port());
  EXPECT_THAT(another.Get("/v1/status", ReadKey()), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(first.Get("/v1/status", ReadKey()), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(stranger.Get("/v1/status", ReadKey()), StartsWith("HTTP/1.1 200"));
}

TEST_F(ControlServerTest, EverybodyGetsTheFilesOfThePage) {
  // Whether it has a key or not, the connection ends with the answer.
  for (const std::string& key : {std::string(), std::string("wrong"), ReadKey()}) {
    RawClient browser(server_->port());
    const std::string answer = browser.Get("/page/page.js", key);
    EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
    EXPECT_THAT(answer, HasSubstr("Connection: close"));
    EXPECT_THAT(answer, HasSubstr("Content-Security-Policy: default-src 'self';"));
    EXPECT_THAT(answer, HasSubstr("X-Content-Type-Options: nosniff"));
    EXPECT_THAT(browser.ReadAll(), IsEmpty());
  }
  RawClient poster(server_->port());
  poster.Send("POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n");
  EXPECT_THAT(poster.ReadAll(), StartsWith("HTTP/1.1 405"));
}

TEST_F(ControlServerTest, WhoGetsAFileOfThePageIsAStrangerStill) {
  RawClient oldest(server_->port());
  RawClient second(server_->port());
  RawClient third(server_->port());
  EXPECT_THAT(third.Get("/"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(oldest.Get("/"), IsEmpty());
}

TEST_F(ControlServerTest, StrangersDoNotFillTheLog) {
  ::testing::internal::CaptureStderr();
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(RawClient(server_->port()).Get("/v1/status", ""), StartsWith("HTTP/1.1 401"));
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  std::size_t lines = 0;
  for (std::size_t at = 0; (at = log.find("the key", at)) != std::string::npos; ++at) ++lines;
  EXPECT_GE(lines, 1u);
  EXPECT_LE(lines, 40u) << log;  // two portions when the clock's turn comes in between
}

}  // namespace
}  // namespace tfos::control
