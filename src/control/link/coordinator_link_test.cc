#include "control/link/coordinator_link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/crypto/purpose.h"
#include "base/logging.h"
#include "base/process/unique_fd.h"
#include "control/link/server/control_server.h"
#include "net/listen.h"
#include "testing/middle_man.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using tfos::testing::MiddleMan;

constexpr std::chrono::seconds kLong(60);

/// Answers an agent with what it says, as often as it says it.
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
    node_ids.push_back(agent.node_id());
    agent.MarkIdentified();
    agent.Send({std::string(text)});
    return Status::Ok();
  }
  std::optional<int> AskForTunnel(int) override { return std::nullopt; }
  void OnClosed(AgentConnection&) override { ++closed; }

  std::vector<int> node_ids;
  int closed = 0;
};

/// As many questions as the name server may answer.
std::counting_semaphore<> may_answer(0);

int AskStuckServer(const char*, const char*, const addrinfo*, addrinfo**) {
  may_answer.acquire();
  return EAI_AGAIN;
}
int KnowsNobody(const char*, const char*, const addrinfo*, addrinfo**) { return EAI_NONAME; }
int KnowsThisHost(const char*, const char* port, const addrinfo* hints, addrinfo** list) {
  return ::getaddrinfo("127.0.0.1", port, hints, list);
}

/// An agent's link and a coordinator's server, in one thread.
class CoordinatorLinkTest : public ::testing::Test {
 protected:
  CoordinatorLinkTest() { SetUpLogging("coordinator link test", "INFO"); }

  void Listen(net::Encryption encryption) { Listen(encryption, io_); }
  void Listen(net::Encryption encryption, asio::io_context& io) {
    ControlServer::Options options;
    options.bind_address = "127.0.0.1";
    options.token = token_;
    options.encryption = encryption;
    auto server = ControlServer::Listen(io.get_executor(), options, service_);
    ASSERT_TRUE(server.ok()) << server.status().ToString();
    server_ = std::move(server).value();
  }

  CoordinatorLink::Options Options(std::uint16_t port, net::Encryption encryption) const {
    return {.door = {.address = "127.0.0.1",
                     .port = port,
                     .key = KeyFor(token_, Purpose::kJoin),
                     .encryption = encryption,
                     .node_id = 5,
                     .connect_timeout = kLong},
            .idle_timeout = kLong};
  }

  /// Runs a coroutine to its end.
  void Run(asio::awaitable<void> coroutine) {
    bool done = false;
    asio::co_spawn(io_, std::move(coroutine), [&](const std::exception_ptr& thrown) {
      EXPECT_EQ(thrown, nullptr);
      done = true;
    });
    io_.restart();
    while (!done) io_.run_one();
  }

  /// Why it can't connect.
  std::string Trouble(const CoordinatorLink::Options& options) {
    std::string trouble;
    Run([](const asio::any_io_executor& executor, CoordinatorLink::Options wanted,
           std::string& why) -> asio::awaitable<void> {
      auto link = co_await CoordinatorLink::Connect(executor, std::move(wanted));
      EXPECT_FALSE(link.ok());
      if (!link.ok()) why = link.status().ToString();
    }(io_.get_executor(), options, trouble));
    return trouble;
  }

  /// Says each text, and hears it again.
  asio::awaitable<void> Converse(CoordinatorLink::Options options, std::vector<std::string> texts) {
    auto link = co_await CoordinatorLink::Connect(io_.get_executor(), std::move(options));
    EXPECT_TRUE(link.ok()) << link.status().ToString();
    if (!link.ok()) co_return;
    EXPECT_EQ((*link)->local_address(), "127.0.0.1");
    for (const std::string& text : texts) (*link)->Send(text);
    for (const std::string& text : texts) {
      const Result<std::string> heard = co_await (*link)->Read();
      EXPECT_TRUE(heard.ok()) << heard.status().ToString();
      EXPECT_EQ(heard.ok() ? *heard : "nothing", text);
    }
    co_await (*link)->Close(Deadline::After(kLong));
  }

  asio::awaitable<void> Connect(CoordinatorLink::Options options,
                                std::unique_ptr<CoordinatorLink>& to) {
    auto link = co_await CoordinatorLink::Connect(io_.get_executor(), std::move(options));
    EXPECT_TRUE(link.ok()) << link.status().ToString();
    if (link.ok()) to = std::move(*link);
  }

  /// Sends so many bytes, as far as the system takes them, and then waits for an answer.
  asio::awaitable<void> Flood(CoordinatorLink& link, std::size_t bytes) {
    const std::string text(std::size_t{1} << 20, 'x');
    for (std::size_t sent = 0; sent < bytes; sent += text.size()) {
      link.Send(text);
      co_await asio::post(io_.get_executor(), asio::use_awaitable);
    }
    const Result<std::string> heard = co_await link.Read();
    EXPECT_TRUE(!heard.ok() && heard.status().kind() == ErrorKind::kReconnect);
    co_await link.Close(Deadline::After(kLong));
  }

  const Secret token_ = Secret::Generate().value();
  asio::io_context io_{1};
  asio::io_context elsewhere_{1};
  Echo service_;
  std::unique_ptr<ControlServer> server_;
};

class ChannelTest : public CoordinatorLinkTest,
                    public ::testing::WithParamInterface<net::Encryption> {};

INSTANTIATE_TEST_SUITE_P(Channels, ChannelTest,
                         ::testing::Values(net::Encryption::kNever, net::Encryption::kAlways),
                         [](const auto& test) {
                           return test.param == net::Encryption::kAlways ? "Tls" : "Plain";
                         });

TEST_P(ChannelTest, MessagesGoBothWays) {
  Listen(GetParam());
  std::vector<std::string> texts = {"one", std::string(300'000, 'x'), ""};
  for (int i = 0; i < 100; ++i) texts.push_back(std::to_string(i));
  Run(Converse(Options(server_->port(), GetParam()), texts));
  EXPECT_EQ(service_.node_ids.size(), texts.size());
  EXPECT_THAT(service_.node_ids, ::testing::Each(5));
  while (service_.closed == 0) io_.run_one();
}

TEST_P(ChannelTest, NoKeyCrossesTheNetwork) {
  Listen(GetParam());
  MiddleMan listener(server_->port(), [](auto...) { return true; });
  const std::string said = R"({"type":"register","host":"a-name-that-tells"})";
  Run(Converse(Options(listener.port(), GetParam()), {said}));
  while (service_.closed == 0) io_.run_one();
  const std::string passed = listener.heard(MiddleMan::Direction::kToServer) +
                             listener.heard(MiddleMan::Direction::kToClient);
  for (const Secret& secret : {token_, KeyFor(token_, Purpose::kJoin)}) {
    const auto bytes = secret.bytes();
    EXPECT_THAT(passed, Not(HasSubstr(secret.ToHex())));
    EXPECT_THAT(passed, Not(HasSubstr(std::string(bytes.begin(), bytes.end()))));
  }
  EXPECT_THAT(passed, Not(HasSubstr("Bearer")));
  if (GetParam() != net::Encryption::kAlways) return;
  // WebSocket masks what an agent says, not what it hears.
  EXPECT_THAT(passed, Not(HasSubstr("a-name-that-tells")));
  EXPECT_THAT(passed, Not(HasSubstr("HTTP")));
}

TEST_P(ChannelTest, AnotherClustersCoordinatorIsToldApart) {
  Listen(GetParam());
  CoordinatorLink::Options options = Options(server_->port(), GetParam());
  options.door.key = Secret::Generate().value();
  const auto told_apart =
      AnyOf(HasSubstr("belongs to another cluster"), HasSubstr("does not know the cluster's key"));
  EXPECT_THAT(Trouble(options), told_apart);
  // A key for something else opens nothing here.
  options.door.key = KeyFor(token_, Purpose::kRead);
  EXPECT_THAT(Trouble(options), told_apart);
}

TEST_F(CoordinatorLinkTest, AnotherSettingIsNamed) {
  Listen(net::Encryption::kAlways);
  EXPECT_THAT(Trouble(Options(server_->port(), net::Encryption::kNever)),
              HasSubstr("spark.tfos.encrypt"));
}

TEST_F(CoordinatorLinkTest, ACoordinatorThatReadsNothingIsGivenUp) {
  Listen(net::Encryption::kNever, elsewhere_);
  CoordinatorLink::Options options = Options(server_->port(), net::Encryption::kNever);
  options.idle_timeout = std::chrono::hours(1);
  std::unique_ptr<CoordinatorLink> link;
  std::thread coordinator([this] { elsewhere_.run(); });
  Run(Connect(options, link));
  elsewhere_.stop();
  coordinator.join();
  ASSERT_NE(link, nullptr);
  // From here on it stands still. The system keeps some of what is sent.
  ::testing::internal::CaptureStderr();
  Run(Flood(*link, 2 * CoordinatorLink::kMaxQueuedBytes));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("the coordinator has left 64 MiB of messages unread"));
  EXPECT_TRUE(service_.node_ids.empty()) << "it has read something";
}

TEST_F(CoordinatorLinkTest, WhoSaysNothingIsGivenUp) {
  const net::TcpListener silent = net::ListenTcp("127.0.0.1", 0, 0).value();
  CoordinatorLink::Options options = Options(silent.port, net::Encryption::kAlways);
  options.door.connect_timeout = std::chrono::milliseconds(50);
  EXPECT_THAT(Trouble(options), HasSubstr("did not shake hands in time"));
}

TEST_F(CoordinatorLinkTest, ACoordinatorMayBeGivenByName) {
  Listen(net::Encryption::kNever);
  CoordinatorLink::Options options = Options(server_->port(), net::Encryption::kNever);
  options.door.address = "driver.example";
  options.door.lookup = KnowsThisHost;
  Run(Converse(options, {"one"}));
  while (service_.closed == 0) io_.run_one();
}

TEST_F(CoordinatorLinkTest, AnUnknownNameIsSaid) {
  CoordinatorLink::Options options = Options(1, net::Encryption::kNever);
  options.door.address = "driver.example";
  options.door.lookup = KnowsNobody;
  EXPECT_THAT(Trouble(options), HasSubstr("look up host driver.example: Name or service not"));
}

TEST_F(CoordinatorLinkTest, ANameServerThatDoesNotAnswerIsGivenUp) {
  CoordinatorLink::Options options = Options(1, net::Encryption::kNever);
  options.door.address = "driver.example";
  options.door.lookup = AskStuckServer;
  options.door.connect_timeout = std::chrono::milliseconds(50);
  EXPECT_THAT(Trouble(options), HasSubstr("look up host driver.example: no answer within 0.05 s"));
  may_answer.release();
}

TEST_F(CoordinatorLinkTest, WhereNothingAnswersThatIsSaid) {
  const net::TcpListener full = net::ListenTcp("127.0.0.1", 0, 0).value();
  ASSERT_EQ(::listen(full.fd.get(), 0), 0);
  sockaddr_in address{
      .sin_family = AF_INET, .sin_port = htons(full.port), .sin_addr = {}, .sin_zero = {}};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  // The kernel drops what comes for a full queue, as a firewall does.
  std::vector<UniqueFd> queued;
  for (int i = 0; i < 4; ++i) {
    queued.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    static_cast<void>(::connect(queued.back().get(), reinterpret_cast<const sockaddr*>(&address),
                                sizeof(address)));
  }
  CoordinatorLink::Options options = Options(full.port, net::Encryption::kAlways);
  options.door.connect_timeout = std::chrono::milliseconds(50);
  EXPECT_THAT(Trouble(options), HasSubstr("no answer within 0.05 s"));
}

}  // namespace
}  // namespace tfos::control
