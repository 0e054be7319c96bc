// A parameter server that has the key, and says what no server says, or when none says it: its
// client's calls end.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
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
#include "net/poll.h"
#include "net/stream.h"
#include "parameter_server/client.h"
#include "parameter_server/server_link.h"
#include "parameter_server/wire/protocol.h"

namespace tfos::parameter_server {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kLong(60);
constexpr std::size_t kShareBytes = 256;

/// Accepts one client, tells it that the server has values, and then says `for_ever` until the
/// client has gone, once it may.
class TalkingServer {
 public:
  TalkingServer(std::string first, std::string for_ever, bool goes_on = true)
      : first_(std::move(first)),
        for_ever_(std::move(for_ever)),
        goes_on_(goes_on),
        listener_(net::ListenTcp("127.0.0.1", 0, 0).value()),
        thread_([this] { Talk(); }) {}
  ~TalkingServer() {
    GoOn();
    thread_.join();
  }

  void GoOn() {
    goes_on_ = true;
    goes_on_.notify_all();
  }
  void AwaitSaid() const { said_.wait(false); }

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
    goes_on_.wait(false);
    while (say(for_ever_)) {
      said_ = true;
      said_.notify_all();
    }
    EXPECT_FALSE(wait.deadline.passed()) << "the client has not gone";
  }

  const std::string first_;
  const std::string for_ever_;
  std::atomic<bool> goes_on_;
  std::atomic<bool> said_ = false;  ///< Once at least.
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
  const TalkingServer server({}, Encode(Opened{.version = kNotStarted}));
  const auto link = ServerLink::Connect(server.OptionsOfClient(kLong));
  ASSERT_FALSE(link.ok());
  EXPECT_EQ(link.status().kind(), ErrorKind::kBug) << link.status().ToString();
  EXPECT_THAT(link.status().ToString(), HasSubstr("wants values of a client that has none"));
}

TEST(HostileServerTest, NobodyHasMoreThanWasPushed) {
  for (const Opened& opened :
       {Opened{.version = 1, .pushes = 1}, Opened{.version = 1, .combined = 64},
        Opened{.version = 1, .pushes = ~std::uint64_t{0}}}) {
    const TalkingServer server({}, Encode(opened));
    const auto link = ServerLink::Connect(server.OptionsOfClient(kLong));
    ASSERT_FALSE(link.ok());
    EXPECT_EQ(link.status().kind(), ErrorKind::kBug) << link.status().ToString();
    EXPECT_THAT(link.status().ToString(), HasSubstr("more than was pushed"));
  }
}

TEST(HostileServerTest, ValuesOfNothingAreRefused) {
  const TalkingServer server(
      Encode(Opened{.version = 1}),
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

// Half of the values have come. The link's thread is held while it waits for the others, which come
// then, and goes on only when the call has returned: it writes them to where they were to go.
TEST(HostileServerTest, WhatComesAfterAnInterruptedReadOverwritesNothing) {
  constexpr std::size_t kBytes = 64 << 10;
  const std::string half(kBytes / 2, '\0');
  const std::string opened = Encode(Opened{.version = 1});
  TalkingServer server(
      opened + Encode(MessageType::kValues, {.data_follow = true, .bytes = kBytes}) + half, half,
      /*goes_on=*/false);
  const ServerLink::Options link = server.OptionsOfClient(kLong);
  std::atomic<bool> reads = false;
  std::atomic<bool> holds = false;
  std::atomic<bool> released = false;
  ClientOptions options;
  options.servers = {link.server};
  options.variables = {{DType::kFloat32, kBytes / sizeof(float)}};
  options.name = link.open.name;
  options.key = link.key;
  options.check = [&]() -> Status {
    if (!holds) return {};
    return {ErrorKind::kInterrupted, "somebody has had enough"};
  };
  // The thread asks where the server is when the job begins, and while it waits.
  options.find = [&, asked = 0](std::size_t) mutable {
    if (reads && ++asked == 2) {
      server.GoOn();
      server.AwaitSaid();
      holds = true;
      released.wait(false);
    }
    return link.server;
  };
  auto client = Client::Connect(std::move(options));
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  reads = true;
  std::vector<std::byte> values(kBytes);
  const std::span<std::byte> rooms[] = {values};
  EXPECT_THAT((*client)->Read(0, rooms).ToString(), HasSubstr("had enough"));
  // What is free has another owner now.
  const std::vector<std::byte> others(kBytes, std::byte{0x55});
  released = true;
  released.notify_all();
  client->reset();  // Its thread has ended.
  EXPECT_EQ(std::ranges::count(others, std::byte{0x55}), std::ssize(others));
}

}  // namespace
}  // namespace tfos::parameter_server
