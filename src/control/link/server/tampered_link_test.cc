// An active attacker between the coordinator and those who talk to it over TLS: agents on their
// WebSockets, and Spark's tasks that ask for pages. Neither end takes anything that the other one
// has not said, and each is told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
#include "base/thread/mutex.h"
#include "control/ask/http_get.h"
#include "control/link/coordinator_link.h"
#include "control/link/server/control_server.h"
#include "testing/middle_man.h"
#include "testing/raw_client.h"
#include "testing/tampering.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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
constexpr std::uint32_t kNodeId = 5;
constexpr std::string_view kPage = "what the coordinator knows of its nodes";

/// Answers an agent with what it says, and each question with kPage.
class Echo final : public ControlService {
 public:
  asio::awaitable<HttpAnswer> Get(std::string target, std::string, Asker) override {
    EXPECT_EQ(target, "/v1/status");
    HttpAnswer answer;  // named: GCC 12 destroys aggregates in a co_return twice
    answer.body = kPage;
    co_return answer;
  }
  asio::awaitable<HttpAnswer> Post(std::string target, std::string query) override {
    return Get(std::move(target), std::move(query), Asker::kOperator);
  }
  Status OnMessage(AgentConnection& agent, std::string_view text) override {
    EXPECT_EQ(agent.node_id(), static_cast<int>(kNodeId));
    agent.MarkIdentified();
    agent.Send({std::string(text)});
    const MutexLock lock(mutex_);
    heard_.emplace_back(text);
    return Status::Ok();
  }
  std::optional<int> AskForTunnel(int) override { return std::nullopt; }
  void OnClosed(AgentConnection&) override {
    const MutexLock lock(mutex_);
    ++closed_;
    changed_.NotifyAll();
  }

  /// What the agents that have left since the last call have said: `agents` of them.
  std::vector<std::string> Take(int agents) TFOS_EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (closed_ < agents) changed_.Wait(mutex_);
    closed_ = 0;
    return std::exchange(heard_, {});
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::string> heard_ TFOS_GUARDED_BY(mutex_);
  int closed_ TFOS_GUARDED_BY(mutex_) = 0;
};

/// A coordinator's server in a thread.
class Serving {
 public:
  Serving(const Secret& token, net::Encryption encryption) {
    ControlServer::Options options;
    options.bind_address = "127.0.0.1";
    options.token = token;
    options.encryption = encryption;
    auto server = ControlServer::Listen(io_.get_executor(), options, service_);
    EXPECT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Serving() {
    asio::post(io_, [this] { server_->Close(); });
    work_.reset();
    thread_.join();
  }

  std::uint16_t port() const { return server_->port(); }
  Echo& service() { return service_; }

 private:
  Echo service_;
  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::unique_ptr<ControlServer> server_;
  std::thread thread_;
};

class TamperedLinkTest : public ::testing::Test {
 protected:
  TamperedLinkTest() { SetUpLogging("tampered link test", "INFO"); }

  /// What an agent comes to that says Texts() and waits to hear them.
  struct Talk {
    Status status;
    std::vector<std::string> heard = {};
    bool connected = false;
  };
  Talk Speak(std::uint16_t port, std::uint32_t node_id = kNodeId) const {
    Talk talk;
    asio::io_context io{1};
    std::unique_ptr<CoordinatorLink> link;  // Goes before the context, which runs no more then.
    asio::co_spawn(io,
                   Converse(io.get_executor(),
                            {.door = {.address = "127.0.0.1",
                                      .port = port,
                                      .key = KeyFor(token_, Purpose::kJoin),
                                      .encryption = net::Encryption::kAlways,
                                      .node_id = node_id,
                                      .connect_timeout = kLong},
                             .idle_timeout = kLong},
                            link, talk),
                   [&io](const std::exception_ptr& thrown) {
                     EXPECT_EQ(thrown, nullptr);
                     io.stop();
                   });
    io.run();
    return talk;
  }

  /// Without a goodbye.
  static asio::awaitable<void> Converse(asio::any_io_executor executor,
                                        CoordinatorLink::Options options,
                                        std::unique_ptr<CoordinatorLink>& link, Talk& talk) {
    auto connected = co_await CoordinatorLink::Connect(executor, std::move(options));
    talk.connected = connected.ok();
    if (!talk.connected) {
      talk.status = connected.status();
      co_return;
    }
    link = std::move(connected).value();
    for (const std::string& text : Texts()) link->Send(text);
    while (talk.heard.size() < Texts().size()) {
      Result<std::string> heard = co_await link->Read();
      if (!heard.ok()) {
        talk.status = heard.status();
        co_return;
      }
      talk.heard.push_back(*std::move(heard));
    }
  }

  static const std::vector<std::string>& Texts() {
    static const std::vector<std::string> texts = {"the first message", "the second",
                                                   std::string(300, 'x')};
    return texts;
  }

  Result<std::string> Ask(std::uint16_t port) const {
    TFOS_ASSIGN_OR_RETURN(const auto answer,
                          HttpGet({.host = "127.0.0.1",
                                   .port = port,
                                   .key = KeyFor(token_, Purpose::kAsk),
                                   .encryption = net::Encryption::kAlways},
                                  "/v1/status", {.deadline = Deadline::After(kLong)}));
    return answer.body;
  }

  const Secret token_ = Secret::Generate().value();
};

/// Whether they are the first ones of those that were said.
bool AreTheFirstOf(const std::vector<std::string>& some, const std::vector<std::string>& said) {
  return some.size() <= said.size() && std::equal(some.begin(), some.end(), said.begin());
}

TEST_F(TamperedLinkTest, NothingGetsThroughThatAnAgentOrTheCoordinatorHasNotSaid) {
  for (const net::Encryption encryption :
       {net::Encryption::kAlways, net::Encryption::kBetweenHosts}) {
    Serving serving(token_, encryption);
    const auto overheard = Overhear(serving.port(), [&](std::uint16_t port) {
      const Talk talk = Speak(port);
      ASSERT_TRUE(talk.status.ok()) << talk.status.ToString();
      ASSERT_EQ(talk.heard, Texts());
    });
    ASSERT_EQ(serving.service().Take(1), Texts());
    std::vector<Tampering> tamperings = Downgrades(overheard);
    ASSERT_FALSE(tamperings.empty());
    if (encryption == net::Encryption::kAlways) {
      std::ranges::move(Tamperings(overheard, 4), std::back_inserter(tamperings));
    }
    for (const Tampering& tampering : tamperings) {
      Talk talk;
      {
        const MiddleMan middle_man(serving.port(), tampering.rule);
        talk = Speak(middle_man.port());
      }
      EXPECT_FALSE(talk.status.ok()) << tampering.what;
      EXPECT_TRUE(AreTheFirstOf(talk.heard, Texts())) << tampering.what;
      EXPECT_TRUE(AreTheFirstOf(serving.service().Take(talk.connected ? 1 : 0), Texts()))
          << tampering.what;
    }
    const Talk talk = Speak(serving.port());
    EXPECT_TRUE(talk.status.ok()) << "others are served: " << talk.status.ToString();
  }
}

TEST_F(TamperedLinkTest, NobodyReadsAPageThatTheCoordinatorHasNotSent) {
  Serving serving(token_, net::Encryption::kAlways);
  const auto overheard = Overhear(serving.port(), [&](std::uint16_t port) {
    const auto page = Ask(port);
    ASSERT_TRUE(page.ok()) << page.status().ToString();
    ASSERT_EQ(*page, kPage);
  });
  for (const Tampering& tampering : Tamperings(overheard, 8)) {
    const MiddleMan middle_man(serving.port(), tampering.rule);
    EXPECT_FALSE(Ask(middle_man.port()).ok()) << tampering.what;
  }
  EXPECT_EQ(Ask(serving.port()).value(), kPage);
}

std::size_t Count(std::string_view text, std::string_view pattern) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(pattern, at)) != std::string_view::npos; ++at) ++count;
  return count;
}

// What the user reads.
TEST_F(TamperedLinkTest, EachEndSaysOnceThatSomethingChangesBytes) {
  Serving serving(token_, net::Encryption::kAlways);
  const auto overheard =
      Overhear(serving.port(), [&](std::uint16_t port) { EXPECT_TRUE(Speak(port).status.ok()); });
  serving.service().Take(1);
  {
    const MiddleMan middle_man(serving.port(), ChangeTheLast(overheard, Direction::kToClient));
    EXPECT_THAT(Speak(middle_man.port()).status.ToString(),
                HasSubstr("data from the coordinator was altered in transit"));
    serving.service().Take(1);
  }
  ::testing::internal::CaptureStderr();
  {
    const MiddleMan middle_man(serving.port(), ChangeTheLast(overheard, Direction::kToServer));
    EXPECT_FALSE(Speak(middle_man.port()).status.ok());
    serving.service().Take(1);
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(Count(log, "closing the connection from 127.0.0.1"), 1U) << log;
  EXPECT_EQ(Count(log, "data was altered in transit"), 1U) << log;
}

TEST_F(TamperedLinkTest, WhatWasSaidOnceIsGoodForOneConnectionOnly) {
  Serving serving(token_, net::Encryption::kAlways);
  const std::string said = SaidToServer(
      Overhear(serving.port(), [&](std::uint16_t port) { EXPECT_TRUE(Speak(port).status.ok()); }));
  serving.service().Take(1);
  tfos::testing::RawClient again(serving.port());
  again.Send(said);
  again.ReadAll();
  EXPECT_THAT(serving.service().Take(0), IsEmpty());
}

// All of them are of one cluster, or know its key.
TEST_F(TamperedLinkTest, NobodyIsLedAstray) {
  Serving serving(token_, net::Encryption::kAlways);
  const Serving other(Secret::Generate().value(), net::Encryption::kAlways);
  const MiddleMan elsewhere(other.port(), [](auto...) { return true; });
  const std::string told_apart = "does not know the cluster's key";
  EXPECT_THAT(Speak(elsewhere.port()).status.ToString(), HasSubstr(told_apart));
  EXPECT_THAT(Ask(elsewhere.port()).status().ToString(), HasSubstr(told_apart));
  // To another door, of the same key; and as another node.
  constexpr std::size_t kNumber = 12;  // In the hello.
  for (const auto& change : std::vector<std::function<void(std::string&)>>{
           [](std::string& hello) { hello.replace(0, 8, "tfos-tun"); },
           [](std::string& hello) { hello[kNumber] = kNodeId + 1; }}) {
    const MiddleMan middle_man(
        serving.port(), OnMessages([&](OverheardMessage message) {
          if (message.direction == Direction::kToServer && message.number == 0) {
            change(message.bytes);
          }
          return PassedOn{std::move(message.bytes)};
        }));
    EXPECT_FALSE(Speak(middle_man.port()).status.ok());
  }
  EXPECT_THAT(serving.service().Take(0), IsEmpty());
}

}  // namespace
}  // namespace tfos::control
