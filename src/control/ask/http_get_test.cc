#include "control/ask/http_get.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/process/unique_fd.h"
#include "control/ask/node_loss.h"
#include "net/handshake.h"
#include "net/listen.h"
#include "net/socket.h"

namespace tfos::control {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;
using testing::StartsWith;

/// Answers one request with these bytes; with none it leaves the connection open.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer)
      : listener_(net::ListenTcp("127.0.0.1", 0, 0).value()),
        thread_([this, answer = std::move(answer)] { Serve(answer); }) {}

  ~OneAnswer() { Join(); }

  CoordinatorAddress address() const {
    return {.host = "127.0.0.1", .port = listener_.port, .token = "5e5e"};
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
    connection_ = UniqueFd(::accept(listener_.fd.get(), nullptr, nullptr));
    while (!request_.ends_with("\r\n\r\n")) {
      std::array<std::byte, 1> byte;
      if (!net::ReceiveAll(connection_.get(), byte, wait).ok()) return;
      request_.push_back(static_cast<char>(byte[0]));
    }
    if (answer.empty()) return;
    EXPECT_TRUE(net::SendAll(connection_.get(), std::as_bytes(std::span(answer)), wait).ok());
    connection_.Reset();
  }

  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  net::TcpListener listener_;
  UniqueFd connection_;
  std::string request_;
  std::thread thread_;
};

Result<HttpAnswer> Get(const CoordinatorAddress& address, Clock::Duration limit = seconds(60)) {
  return HttpGet(address, "/v1/status", {.deadline = Deadline::After(limit)});
}

TEST(HttpGetTest, AsksWithTheTokenAndGivesTheAnswer) {
  OneAnswer server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
  const auto answer = Get(server.address());
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->status, 200U);
  EXPECT_EQ(answer->body, "hello");
  EXPECT_THAT(server.request(), StartsWith("GET /v1/status HTTP/1.1\r\n"));
  EXPECT_THAT(server.request(), HasSubstr("\r\nAuthorization: Bearer 5e5e\r\n"));
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

TEST(HttpGetTest, AnAnswerThatDoesNotComeEndsWithTheDeadline) {
  OneAnswer server("");
  EXPECT_EQ(Get(server.address(), std::chrono::milliseconds(50)).status().kind(),
            ErrorKind::kRetryLater);
}

TEST(HttpGetTest, ATaskThatIsKilledWaitsNoLonger) {
  OneAnswer server("");
  const CoordinatorAddress address = server.address();
  const nlohmann::json plan = {{"read_key", address.token},
                               {"coordinator", {{"address", address.host}, {"port", address.port}}},
                               {"endpoints", nlohmann::json::array()}};
  const auto killed = [] { return Status(ErrorKind::kInterrupted, "the task was killed"); };
  EXPECT_EQ(WhyNodeWasLost(plan.dump(), killed).status().kind(), ErrorKind::kInterrupted);
}

}  // namespace
}  // namespace tfos::control
