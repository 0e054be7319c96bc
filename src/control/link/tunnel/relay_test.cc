// Bytes between two streams, also where memory runs out.

#include "control/link/tunnel/relay.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/process/unique_fd.h"
#include "net/stream.h"
#include "testing/no_memory.h"
#include "testing/send_all.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;

Wait Long() { return {.deadline = Deadline::After(std::chrono::seconds(60))}; }

class RelayTest : public ::testing::Test {
 protected:
  RelayTest() {
    for (auto* const ends : {&near_, &far_}) {
      int sockets[2];
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, sockets), 0);
      ends->first.Reset(sockets[0]);
      ends->second.Reset(sockets[1]);
    }
  }

  /// Relays between the two pairs, to the end.
  std::exception_ptr Run() {
    std::exception_ptr result;
    asio::co_spawn(
        io_,
        [](std::shared_ptr<AsyncStream> one,
           std::shared_ptr<AsyncStream> other) -> asio::awaitable<void> {
          co_await Relay(std::move(one), std::move(other));
        }(Stream(near_.second), Stream(far_.second)),
        [&](const std::exception_ptr& thrown) { result = thrown; });
    io_.run();
    return result;
  }

  static void Say(const UniqueFd& socket, std::string_view text) {
    EXPECT_TRUE(tfos::testing::SendAll(socket.get(), std::as_bytes(std::span(text)), Long()).ok());
    EXPECT_EQ(::shutdown(socket.get(), SHUT_WR), 0);
  }
  static std::string Hear(const UniqueFd& socket, std::size_t bytes) {
    std::string heard(bytes, '\0');
    const auto room = std::as_writable_bytes(std::span(heard));
    EXPECT_TRUE(tfos::testing::ReceiveAll(socket.get(), room, Long()).ok());
    return heard;
  }
  static bool HasEnded(const UniqueFd& socket) {
    std::byte none{};
    return tfos::testing::ReceiveAll(socket.get(), std::span(&none, 1), Long()).kind() ==
           ErrorKind::kReconnect;
  }

  using Ends = std::pair<UniqueFd, UniqueFd>;

  std::shared_ptr<AsyncStream> Stream(UniqueFd& socket) {
    return std::make_shared<AsyncStream>(io_.get_executor(),
                                         std::make_unique<net::SocketStream>(std::move(socket)));
  }

  asio::io_context io_{1};
  Ends near_;
  Ends far_;
};

TEST_F(RelayTest, PassesOnBothWaysUntilBothHaveEnded) {
  Say(near_.first, "a question");
  Say(far_.first, "an answer");
  EXPECT_EQ(Run(), nullptr);
  EXPECT_EQ(Hear(far_.first, 10), "a question");
  EXPECT_EQ(Hear(near_.first, 9), "an answer");
  EXPECT_TRUE(HasEnded(near_.first) && HasEnded(far_.first));
}

#ifndef TFOS_SANITIZED
constexpr std::size_t kRoomBytes = std::size_t{16} << 10;
/// How many more allocations of a relay's room work; -1: all.
int left = -1;

/// Whichever way has no memory: the other one neither goes on, nor uses what is gone.
class ScarceRelayTest : public RelayTest, public ::testing::WithParamInterface<int> {
 protected:
  ScarceRelayTest() {
    left = GetParam();
    tfos::testing::refuses_memory = [](std::size_t bytes) {
      return bytes == kRoomBytes && left >= 0 && left-- == 0;
    };
  }
  ~ScarceRelayTest() override { tfos::testing::refuses_memory = nullptr; }
};

INSTANTIATE_TEST_SUITE_P(Ways, ScarceRelayTest, ::testing::Values(0, 1),
                         [](const auto& test) { return test.param == 0 ? "First" : "Second"; });

TEST_P(ScarceRelayTest, BothEnd) {
  const std::exception_ptr thrown = Run();
  EXPECT_EQ(left, -1) << "the memory was asked for";
  EXPECT_EQ(thrown != nullptr, GetParam() == 1) << "the first way is one that nobody waits for";
  EXPECT_TRUE(HasEnded(near_.first) && HasEnded(far_.first));
}
#endif

}  // namespace
}  // namespace tfos::control
