// What a feeder makes of a node that breaks the protocol.

#include "feed/feeder/client/feed_client.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "base/process/unique_fd.h"
#include "feed/wire/frame.h"
#include "net/stream.h"

namespace tfos::feed {
namespace {

// It keeps the bytes until the credit comes.
TEST(FeedClientTest, ACreditForAChunkThatIsStillBeingSentIsRefused) {
  int ends[2] = {};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd node(ends[1]);
  const auto node_says = [&](const std::string& message) {
    return ::write(node.get(), message.data(), message.size()) ==
           static_cast<ssize_t>(message.size());
  };
  const std::unique_ptr<FeedClient> client =
      FeedClient::Over({.stream = std::make_unique<net::SocketStream>(UniqueFd(ends[0])),
                        .numbers = {},
                        .channel = net::Channel::kPlain},
                       {}, {.progress_timeout = std::chrono::seconds(2)});
  constexpr std::size_t kBytes = 8 << 20;  // More than the socket takes before the node reads.
  ASSERT_TRUE(client->BeginOpen({.until_read = true}).ok());
  ASSERT_TRUE(node_says(Encode(OpenedMessage{.region_bytes = kBytes})));
  ASSERT_TRUE(client->FreeBytes().ok() && client->opened());
  ASSERT_TRUE(client->Reserve(kBytes).ok());
  ASSERT_TRUE(node_says(Encode(CreditMessage{.chunks = 1})));
  const Status sent = client->Commit(kBytes, {0, 1});
  EXPECT_EQ(sent.kind(), ErrorKind::kBadInput) << sent.DebugString();
}

}  // namespace
}  // namespace tfos::feed
