// A parameter server that has the key, and says what no server says: its client's calls end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "base/process/unique_fd.h"
#include "net/handshake/handshake.h"
#include "net/listen.h"
#include "net/socket.h"
#include "net/stream.h"
#include "parameter_server/server_link.h"
#include "parameter_server/wire/protocol.h"

namespace tfos::parameter_server {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kLong(60);
constexpr std::size_t kShareBytes = 256;

/// Accepts one client, tells it that the server has values, and then says `for_ever` until the
/// client has gone.
class TalkingServer {
 public:
  TalkingServer(std::string first, std::string for_ever)
      : first_(std::move(first)),
        for_ever_(std::move(for_ever)),
        listener_(net::ListenTcp("127.0.0.1", 0, 0).value()),
        thread_([this] { Talk(); }) {}
  ~TalkingServer() { thread_.join(); }

  ServerLink::Options OptionsOfClient(milliseconds patience) const {
    ServerLink::Options options;
    options.server.name = "ps:0 on host h";
    options.server.address = "127.0.0.1";
    options.server.port = listener_.port;
    options.key = key_;
    options.open.name = "worker:1 on host h";
    options.open.share = {{DType::kFloat32, kShareBytes / sizeof(float)}};
    options.share_bytes = kShareBytes;
    options.stall_after = kLong;
    options.wait = {.deadline = Deadline::After(patience)};
    return options;
  }

 private:
  void Talk() {
    const Wait wait{.deadline = Deadline::After(kLong)};
    ASSERT_NE(net::Poll(listener_.fd.get(), POLLIN, wait).value(), 0);
    UniqueFd socket(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    auto handshake =
        net::Handshake::Accepting(std::move(socket), {.protocol = kProtocol, .key = key_}, {});
    ASSERT_TRUE(net::Finish(handshake, wait).ok());
    const std::unique_ptr<net::Stream> stream = handshake.Take().stream;
    const auto say = [&](const std::string& text) {
      return net::SendAll(*stream, std::as_bytes(std::span(text)), wait).ok();
    };
    if (!say(first_)) return;
    while (say(for_ever_)) {
    }
    EXPECT_FALSE(wait.deadline.passed()) << "the client has not gone";
  }

  const std::string first_;
  const std::string for_ever_;
  const Secret key_ = Secret::Generate().value();
  const net::TcpListener listener_;
  std::thread thread_;
};

TEST(HostileServerTest, AnEndlessTalkAboutWaitingEndsAtTheDeadline) {
  // There are so many at once that there is always more to read.
  std::string talk;
  while (talk.size() < std::size_t{4} << 20) talk += Encode(Waiting{.name = "worker:2"});
  const TalkingServer server({}, std::move(talk));
  const auto link = ServerLink::Connect(server.OptionsOfClient(milliseconds(300)));
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(link.status().kind(), ErrorKind::kRetryLater) << link.status().ToString();
  EXPECT_THAT(link.status().ToString(), HasSubstr("parameter server ps:0 on host h"));
}

TEST(HostileServerTest, WhoHasNoValuesIsNotToGiveThem) {
  const TalkingServer server({}, EncodeVersion(MessageType::kOpened, kNotStarted));
  const auto link = ServerLink::Connect(server.OptionsOfClient(kLong));
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(link.status().kind(), ErrorKind::kBug) << link.status().ToString();
  EXPECT_THAT(link.status().ToString(), HasSubstr("wants values of a client that has none"));
}

TEST(HostileServerTest, ValuesOfNothingAreRefused) {
  const TalkingServer server(
      EncodeVersion(MessageType::kOpened, 1),
      Encode(MessageType::kValues, {.data_follow = true, .begin = 0, .bytes = 0, .version = 1}));
  const auto link = ServerLink::Connect(server.OptionsOfClient(kLong));
  ASSERT_TRUE(link.ok()) << link.status().ToString();
  std::vector<std::byte> values(kShareBytes);
  (*link)->Start({.pull = values});
  while (!(*link)->WaitFor(kLong)) {
  }
  const Status read = (*link)->status();
  EXPECT_THAT(read.ToString(), HasSubstr("values that were not asked for"));
}

}  // namespace
}  // namespace tfos::parameter_server
