#include "control/ask/http_get.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/process/unique_fd.h"
#include "control/ask/node_loss.h"
#include "control/messages/protocols.h"
#include "net/handshake/handshake.h"
#include "net/listen.h"
#include "net/poll.h"
#include "net/socket.h"

namespace tfos::control {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// Answers one request with these bytes; with none it leaves the connection open, unless told
/// otherwise.
class OneAnswer {
 public:
  enum class Then { kCloseAfterAnswer, kClose };

  explicit OneAnswer(std::string answer,
                     net::Encryption encryption = net::Encryption::kBetweenHosts,
                     Then then = Then::kCloseAfterAnswer)
      : encryption_(encryption),
        then_(then),
        listener_(net::ListenTcp("127.0.0.1", 0, 0).value()),
        thread_([this, answer = std::move(answer)] { Serve(answer); }) {}

  ~OneAnswer() { Join(); }

  CoordinatorAddress address() const {
    return {.host = "127.0.0.1", .port = listener_.port, .key = key_, .encryption = encryption_};
  }
  /// Once it has answered.
  const std::string& request() {
    Join();
    return request_;
  }

 private:
  void Serve(const std::string& answer) {
    const Wait wait{.deadline = Deadline::After(seconds(60))};
    if (net::Poll(listener_.fd.get(), POLLIN, wait).value() == 0) return;
    UniqueFd socket(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    net::Handshake handshake = net::Handshake::Accepting(
        std::move(socket), {.protocol = kAskProtocol, .key = key_, .encryption = encryption_}, {});
    if (!net::Finish(handshake, wait).ok()) return;
    connection_ = handshake.Take().stream;
    while (!request_.ends_with("\r\n\r\n")) {
      std::array<char, 1000> room;
      const auto got = connection_->Receive(std::as_writable_bytes(std::span(room)));
      if (!got.ok() || got->ended) return;
      request_.append(room.data(), got->bytes);
      if (!got->blocked) continue;
      EXPECT_TRUE(net::Poll(connection_->fd(), POLLIN, wait).ok());
    }
    if (answer.empty() && then_ == Then::kCloseAfterAnswer) return;
    EXPECT_TRUE(net::SendAll(*connection_, std::as_bytes(std::span(answer)), wait).ok());
    connection_.reset();
  }

  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  const Secret key_ = Secret::Generate().value();
  const net::Encryption encryption_;
  const Then then_;
  net::TcpListener listener_;
  std::unique_ptr<net::Stream> connection_;
  std::string request_;
  std::thread thread_;
};

Result<HttpReply> Get(const CoordinatorAddress& address, Clock::Duration limit = seconds(60)) {
  return HttpGet(address, "/v1/status", {.deadline = Deadline::After(limit)});
}

TEST(HttpGetTest, AsksAndGivesTheAnswer) {
  for (const net::Encryption encryption : {net::Encryption::kNever, net::Encryption::kAlways}) {
    OneAnswer server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", encryption);
    const auto answer = Get(server.address());
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(answer->status, 200U);
    EXPECT_EQ(answer->body, "hello");
    EXPECT_THAT(server.request(), StartsWith("GET /v1/status HTTP/1.1\r\n"));
    EXPECT_THAT(server.request(), Not(HasSubstr("Authorization")));
  }
}

TEST(HttpGetTest, AsksNobodyWhoDoesNotHaveTheKey) {
  OneAnswer server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
  CoordinatorAddress address = server.address();
  address.key = Secret::Generate().value();
  EXPECT_EQ(Get(address).status().kind(), ErrorKind::kBadInput);
  EXPECT_EQ(server.request(), "");
}

TEST(HttpGetTest, ABodyWithoutALengthEndsWithTheConnection) {
  OneAnswer server("HTTP/1.0 200 OK\r\n\r\nto the end");
  EXPECT_EQ(Get(server.address()).value().body, "to the end");
}

TEST(HttpGetTest, AnAnswerWithoutContentHasNoBody) {
  OneAnswer server("HTTP/1.1 204 No Content\r\n\r\n");
  const auto answer = Get(server.address());
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->status, 204U);
  EXPECT_EQ(answer->body, "");
}

TEST(HttpGetTest, AnAnswerThatIsCutOrNoHttpIsAnError) {
  for (const char* answer : {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", "SSH-2.0-x\r\n"}) {
    OneAnswer server(answer);
    EXPECT_EQ(Get(server.address()).status().kind(), ErrorKind::kReconnect) << answer;
  }
}

TEST(HttpGetTest, AnEndWithoutAnAnswerIsNone) {
  OneAnswer server("", net::Encryption::kBetweenHosts, OneAnswer::Then::kClose);
  EXPECT_EQ(Get(server.address()).status().kind(), ErrorKind::kReconnect);
}

TEST(HttpGetTest, AnAnswerThatDoesNotComeEndsWithTheDeadline) {
  OneAnswer server("");
  EXPECT_EQ(Get(server.address(), std::chrono::milliseconds(50)).status().kind(),
            ErrorKind::kRetryLater);
}

/// The plan of a job as far as its tasks need it to ask.
std::string PlanFor(const CoordinatorAddress& address) {
  return nlohmann::json{{"ask_key", address.key.ToHex()},
                        {"encrypt", "auto"},
                        {"coordinator", {{"address", address.host}, {"port", address.port}}},
                        {"endpoints", nlohmann::json::array()}}
      .dump();
}

TEST(HttpGetTest, ATaskThatIsKilledWaitsNoLonger) {
  OneAnswer server("");
  const std::string plan = PlanFor(server.address());
  const auto killed = [] { return Status(ErrorKind::kInterrupted, "the task was killed"); };
  EXPECT_EQ(WhyNodeWasLost(plan, killed).status().kind(), ErrorKind::kInterrupted);
  EXPECT_EQ(EndedNodes(plan, killed).status().kind(), ErrorKind::kInterrupted);
}

Result<std::set<std::uint32_t>> EndedNodesIn(const std::string& status) {
  OneAnswer server(
      fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{}", status.size(), status));
  return EndedNodes(PlanFor(server.address()), {});
}

TEST(HttpGetTest, TheCoordinatorSaysWhichNodesHaveEnded) {
  const auto ended = EndedNodesIn(
      R"({"failure": null, "nodes": [{"node_id": 1, "state": "done"}, {"node_id": 2, "state":
      "running"}, {"node_id": 3, "state": "lost"}, {"node_id": 4, "state": "failed"},
      {"node_id": 5, "state": "draining"}, {"state": "done"}, 7,
      {"node_id": 6, "state": "running", "joins": true}]})");
  ASSERT_TRUE(ended.ok()) << ended.status().DebugString();
  EXPECT_THAT(*ended, ::testing::ElementsAre(1, 3, 4, 6)) << "it came in place of a lost one";
}

TEST(HttpGetTest, OfAClusterThatHasFailedItNamesNoNodes) {
  EXPECT_EQ(EndedNodesIn(R"({"failure": {"step": "x"}, "nodes": []})").status().kind(),
            ErrorKind::kReconnect);
}

TEST(HttpGetTest, AnAnswerThatIsNotUnderstoodNamesNoNodes) {
  for (const char* status : {"{", "[]", R"({"nodes": 7})"}) {
    EXPECT_EQ(EndedNodesIn(status).status().kind(), ErrorKind::kRetryLater) << status;
  }
}

}  // namespace
}  // namespace tfos::control
