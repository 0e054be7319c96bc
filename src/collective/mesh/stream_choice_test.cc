#include "collective/mesh/stream_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <thread>
#include <utility>

#include "base/crypto/secret.h"
#include "net/tls/tls_stream.h"

namespace tfos::collective {
namespace {

using Chosen = Result<std::unique_ptr<net::Stream>>;

Wait Long() { return {.deadline = Deadline::After(std::chrono::seconds(60))}; }

/// Does it at both ends at a time.
template <typename Action>
std::pair<Chosen, Chosen> AtBoth(const Action& action) {
  Chosen other = Status(ErrorKind::kBug, "not run");
  std::thread thread([&] { other = action(1); });
  Chosen one = action(0);
  thread.join();
  EXPECT_TRUE(one.ok()) << one.status().ToString();
  EXPECT_TRUE(other.ok()) << other.status().ToString();
  return {std::move(one), std::move(other)};
}

/// What two members choose over TLS.
std::pair<Chosen, Chosen> ChooseOverTls(net::UcxWorker* first, net::UcxWorker* second) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const Secret key = *Secret::Generate();
  return AtBoth([&](int end) -> Chosen {
    const auto side =
        end == 0 ? net::TlsStream::Side::kConnecting : net::TlsStream::Side::kAccepting;
    TFOS_ASSIGN_OR_RETURN(auto stream,
                          net::TlsStream::Open(UniqueFd(ends[end]), side, key, Long(), {}));
    return ChooseStream(std::move(stream), end == 0 ? first : second, Long());
  });
}

TEST(StreamChoiceTest, WithoutUcxFramesGoOverTheConnection) {
  const auto [one, other] = ChooseOverTls(nullptr, nullptr);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_FALSE((*one)->beside_socket());
  EXPECT_EQ((*one)->Describe(), "tcp with TLS");
}

#ifdef TFOS_HAS_UCX
TEST(StreamChoiceTest, WhereBothHaveUcxTlsIsLeftToTheLastWords) {
  const auto start = [] {
    return net::UcxWorker::Create({.peers = 2, .transports = "tcp", .packaged = TFOS_PACKAGED_UCX});
  };
  const auto first = start();
  const auto second = start();
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  auto [one, other] = ChooseOverTls(first->get(), second->get());
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_TRUE((*one)->beside_socket());
  EXPECT_THAT((*one)->Describe(), ::testing::StartsWith("ucx"));
  ASSERT_NE((*one)->beside(), nullptr);
  EXPECT_EQ((*one)->beside()->Describe(), "tcp with TLS");
  const std::byte said{42};
  ASSERT_TRUE(net::SendAll(*(*one)->beside(), std::span(&said, 1), Long()).ok());
  std::byte heard{};
  ASSERT_TRUE(net::ReceiveAll(*(*other)->beside(), std::span(&heard, 1), Long()).ok());
  EXPECT_EQ(heard, said);
}
#endif

}  // namespace
}  // namespace tfos::collective
