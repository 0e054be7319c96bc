// An active attacker between the coordinator and the agent of the node beside which TensorBoard
// runs. This is the only part of the way from a reader to TensorBoard that leaves a host and is
// tfos's own. A browser's connection to the coordinator is plain HTTP (docs/security.md), and the
// agent reaches TensorBoard over the loopback interface. TensorBoard gets no request that the
// coordinator has not sent, and the reader no answer that TensorBoard has not given. Neither takes
// a part of one for all of it, and the log says once that bytes were changed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <future>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/crypto/purpose.h"
#include "base/logging.h"
#include "control/agent/child/tampered_tunnel_fixture.h"
#include "control/agent/child/tensorboard_tunnel.h"
#include "control/link/server/control_server.h"
#include "net/socket.h"
#include "testing/middle_man.h"
#include "testing/tampering.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using tfos::testing::ChangeTheLast;
using tfos::testing::Downgrades;
using tfos::testing::MiddleMan;
using tfos::testing::OnMessages;
using tfos::testing::Overhear;
using tfos::testing::OverheardMessage;
using tfos::testing::PassedOn;
using tfos::testing::SaidToServer;
using tfos::testing::Tampering;
using tfos::testing::Tamperings;
using Direction = MiddleMan::Direction;

constexpr std::chrono::seconds kLong(60);
constexpr int kNodeId = 3;

/// Shows TensorBoard of node kNodeId, and nothing else.
class Showing final : public ControlService {
 public:
  /// Called with the number of each tunnel that is asked for.
  std::function<void(int number)> open;

  asio::awaitable<HttpAnswer> Get(std::string, std::string, Asker) override {
    HttpAnswer answer;  // named: GCC 12 destroys aggregates in a co_return twice
    answer.status = 404;
    co_return answer;
  }
  asio::awaitable<HttpAnswer> Post(std::string target, std::string query) override {
    return Get(std::move(target), std::move(query), Asker::kOperator);
  }
  Status OnMessage(AgentConnection&, std::string_view) override { return Status::Ok(); }
  std::optional<int> AskForTunnel(int number) override {
    open(number);
    return kNodeId;
  }
  void OnClosed(AgentConnection&) override {}
};

/// A coordinator's server and, in the same thread, an agent that opens the tunnels that it is asked
/// for, through the port that a test says.
class TamperedTunnelTest : public ::testing::Test {
 protected:
  TamperedTunnelTest() {
    SetUpLogging("tampered tunnel test", "INFO");
    service_.open = [this](int number) { OpenTunnel(number); };
    ControlServer::Options options;
    options.bind_address = "127.0.0.1";
    options.token = token_;
    options.encryption = net::Encryption::kAlways;
    auto server = ControlServer::Listen(io_.get_executor(), options, service_);
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~TamperedTunnelTest() override {
    asio::post(io_, [this] { io_.stop(); });
    thread_.join();
  }

  /// What comes of one request.
  struct Visit {
    Heard reader = {};                    ///< What the browser got.
    std::vector<Heard> tensorboard = {};  ///< What TensorBoard got.
  };

  /// A browser asks for TensorBoard; its tunnel goes through `port`. `waits`: for the answer, which
  /// takes long where no tunnel comes to be.
  Visit Look(std::uint16_t port, bool waits = true) {
    std::promise<void> ended;
    InThread([&] {
      tunnels_lead_to_ = port;
      tunnel_ended_ = &ended;
    });
    const auto browser = net::ConnectTcp("127.0.0.1", server_->port(), Long());
    EXPECT_TRUE(browser.ok()) << browser.status().ToString();
    Say(browser->get(),
        "GET /tensorboard/data?tag=loss HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer " +
            KeyFor(token_, Purpose::kRead).ToHex() + "\r\n\r\n");
    Visit visit;
    if (waits) visit.reader = Hear(browser->get());
    ::shutdown(browser->get(), SHUT_WR);
    ended.get_future().wait();
    visit.tensorboard = tensorboard_.Take();
    return visit;
  }

  /// Does it in the thread of the coordinator and the agent.
  void InThread(std::function<void()> action) {
    std::promise<void> done;
    asio::post(io_, [&] {
      action();
      done.set_value();
    });
    done.get_future().wait();
  }

  /// The same where nobody meddles: the request as TensorBoard gets it.
  std::string Request() {
    const Visit visit = Look(server_->port());
    EXPECT_EQ(visit.reader.bytes, kAnswer);
    EXPECT_TRUE(visit.reader.whole);
    EXPECT_EQ(visit.tensorboard.size(), 1U);
    if (visit.tensorboard.size() != 1) return {};
    EXPECT_THAT(visit.tensorboard[0].bytes, StartsWith("GET /tensorboard/data?tag=loss "));
    EXPECT_THAT(visit.tensorboard[0].bytes, Not(HasSubstr("Authorization")));
    return visit.tensorboard[0].bytes;
  }

  std::vector<OverheardMessage> Conversation() {
    return Overhear(server_->port(),
                    [&](std::uint16_t port) { EXPECT_EQ(Look(port).reader.bytes, kAnswer); });
  }

  /// What they say once both have the key of the connection: the request, the answer, and each that
  /// nothing more comes. What they say before, shake_hands_test.cc covers.
  static std::vector<OverheardMessage> AfterHandshake(const std::vector<OverheardMessage>& all) {
    int of_coordinator = 0;
    auto first = all.end();
    while (first != all.begin() && of_coordinator < 2) {
      --first;
      if (first->direction == Direction::kToClient) ++of_coordinator;
    }
    return {first, all.end()};
  }

  /// Changes the request, or the answer.
  static MiddleMan::Rule Change(std::vector<OverheardMessage> overheard, Direction direction) {
    // Not that nothing more comes, which each of them says last.
    const auto last = std::find_if(overheard.rbegin(), overheard.rend(),
                                   [&](const auto& said) { return said.direction == direction; });
    overheard.erase(std::next(last).base());
    return ChangeTheLast(overheard, direction);
  }

  void OpenTunnel(int number) {
    std::promise<void>* const ended = std::exchange(tunnel_ended_, nullptr);
    const CoordinatorDoor door{.address = "127.0.0.1",
                               .port = tunnels_lead_to_,
                               .key = KeyFor(token_, Purpose::kJoin),
                               .encryption = net::Encryption::kAlways,
                               .node_id = node_id_,
                               .connect_timeout = kLong};
    asio::co_spawn(io_,
                   OpenTensorBoardTunnel(io_.get_executor(), door,
                                         static_cast<std::uint32_t>(number), tensorboard_.port()),
                   [ended](const std::exception_ptr& thrown) {
                     EXPECT_EQ(thrown, nullptr);
                     ended->set_value();
                   });
  }

  const Secret token_ = Secret::Generate().value();
  FakeTensorBoard tensorboard_;
  Showing service_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::unique_ptr<ControlServer> server_;
  // Of the thread.
  std::uint16_t tunnels_lead_to_ = 0;
  std::uint32_t node_id_ = kNodeId;
  std::promise<void>* tunnel_ended_ = nullptr;
  std::thread thread_;
};

/// Whether it is all of `said`, or a part from its beginning that was broken off.
::testing::AssertionResult IsNothingElse(const Heard& heard, std::string_view said) {
  if (heard.bytes == said || (!heard.whole && said.starts_with(heard.bytes))) {
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure()
         << (heard.whole ? "took for whole: " : "got: ") << heard.bytes;
}

TEST_F(TamperedTunnelTest, NothingElseReachesTensorBoardOrTheReader) {
  const std::string request = Request();
  const auto overheard = Conversation();
  const auto data = AfterHandshake(overheard);
  ASSERT_GE(data.size(), 3U) << "the request, the answer, and its end";
  std::size_t refused = 0;
  for (const Tampering& tampering : Tamperings(data, 8)) {
    Visit visit;
    {
      const MiddleMan middle_man(server_->port(), tampering.rule);
      visit = Look(middle_man.port());
    }
    EXPECT_TRUE(IsNothingElse(visit.reader, kAnswer)) << tampering.what;
    for (const Heard& heard : visit.tensorboard) {
      EXPECT_TRUE(IsNothingElse(heard, request)) << tampering.what;
    }
    refused += visit.reader.whole ? 0 : 1;
  }
  EXPECT_GT(refused, 0U);
  EXPECT_EQ(Request(), request) << "others are served";
}

TEST_F(TamperedTunnelTest, NoTunnelComesToBeWhoseHandshakeWasChanged) {
  const auto overheard = Conversation();
  auto handshake = overheard;
  handshake.resize(overheard.size() - AfterHandshake(overheard).size());
  std::vector<Tampering> tamperings = Tamperings(handshake, 2);
  std::ranges::move(Downgrades(overheard), std::back_inserter(tamperings));
  for (const Tampering& tampering : tamperings) {
    const MiddleMan middle_man(server_->port(), tampering.rule);
    EXPECT_THAT(Look(middle_man.port(), false).tensorboard, IsEmpty()) << tampering.what;
  }
  EXPECT_THAT(Request(), Not(IsEmpty())) << "others are served";
}

std::size_t Count(std::string_view text, std::string_view pattern) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(pattern, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

// What the user reads.
TEST_F(TamperedTunnelTest, EachEndSaysOnceThatSomethingChangesBytes) {
  const auto overheard = Conversation();
  for (const auto& [direction, said] :
       {std::pair(Direction::kToClient, "data from the coordinator was altered in transit"),
        std::pair(Direction::kToServer,
                  "data of TensorBoard from the agent of its node was altered in transit")}) {
    ::testing::internal::CaptureStderr();
    {
      const MiddleMan middle_man(server_->port(), Change(overheard, direction));
      EXPECT_FALSE(Look(middle_man.port()).reader.whole);
    }
    EXPECT_EQ(Request().empty(), false);  // The log is written by then.
    const std::string log = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(Count(log, said), 1U) << log;
    EXPECT_EQ(Count(log, "altered in transit"), 1U) << log;
  }
}

TEST_F(TamperedTunnelTest, WhatWasSaidOnceIsGoodForOneTunnelOnly) {
  const std::string said = SaidToServer(Conversation());
  ::testing::internal::CaptureStderr();
  const auto again = net::ConnectTcp("127.0.0.1", server_->port(), Long());
  ASSERT_TRUE(again.ok());
  Say(again->get(), said);
  Hear(again->get());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("TLS with the other end failed: binder does not verify"));
}

// A tunnel to another cluster's coordinator, to another door of the right one, and to the right one
// as another node or for another tunnel.
TEST_F(TamperedTunnelTest, NoTunnelIsLedAstray) {
  constexpr std::size_t kConnecting = 12;  // In the hello.
  constexpr std::size_t kGeneration = 20;
  for (const auto& change : std::vector<std::function<void(std::string&)>>{
           [](std::string& hello) { hello.replace(0, 8, "tfos-agt"); },
           [](std::string& hello) { hello[kConnecting] ^= 1; },
           [](std::string& hello) { hello[kGeneration] ^= 1; }}) {
    const MiddleMan middle_man(
        server_->port(), OnMessages([&](OverheardMessage message) {
          if (message.direction == Direction::kToServer && message.number == 0) {
            change(message.bytes);
          }
          return PassedOn{std::move(message.bytes)};
        }));
    EXPECT_THAT(Look(middle_man.port(), false).tensorboard, IsEmpty());
  }
  ControlServer::Options options;
  options.bind_address = "127.0.0.1";
  options.token = Secret::Generate().value();
  options.encryption = net::Encryption::kAlways;
  std::unique_ptr<ControlServer> other;
  InThread([&] { other = ControlServer::Listen(io_.get_executor(), options, service_).value(); });
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(Look(other->port(), false).tensorboard, IsEmpty());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("does not know the cluster's key"));
  InThread([&] { other->Close(); });
}

}  // namespace
}  // namespace tfos::control
