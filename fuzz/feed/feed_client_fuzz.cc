// What a node says to a feeder after the handshake: over a Unix socket, with a descriptor of memory
// or without, and over TCP. The feeder feeds and takes results until it is told to stop or gives
// up.

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/process/unique_fd.h"
#include "feed/feeder/client/feed_client.h"
#include "feed/wire/region.h"
#include "net/socket.h"
#include "net/stream.h"

namespace {

using namespace tfos;        // NOLINT(google-build-using-namespace)
using namespace tfos::feed;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kRegionBytes = 8192;
/// More may not fit into a socket at once.
constexpr std::size_t kMostSaid = 64 << 10;

volatile std::uint8_t sink;

Status Feed(FeedClient& client, Mode mode, bool counts) {
  if (counts) TFOS_RETURN_IF_ERROR(client.Count({.epoch = 1}, 2).status());
  TFOS_RETURN_IF_ERROR(
      client.Open({.mode = mode, .until_read = mode == Mode::kTrain && counts}).status());
  std::uint64_t item = 0;
  for (const std::size_t bytes : {std::size_t{100}, std::size_t{5000}, std::size_t{20'000}}) {
    TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, client.Reserve(bytes));
    std::ranges::fill(room, std::byte{1});
    TFOS_RETURN_IF_ERROR(client.Commit(room.size(), {item, item + 1}));
    ++item;
    TFOS_RETURN_IF_ERROR(client.FreeBytes().status());
    TFOS_ASSIGN_OR_RETURN(const std::optional<ResultChunk> result, client.TakeResult(false));
    if (!result) continue;
    for (const std::byte byte : result->bytes.bytes()) sink = static_cast<std::uint8_t>(byte);
  }
  return client.Finish().status();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint8_t how = data[0];
  const auto said = std::as_bytes(std::span(data + 1, std::min(size - 1, kMostSaid)));
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  const UniqueFd node(ends[1]);
  std::unique_ptr<Region> region;
  const bool local = (how & 1) != 0;
  if (local && (how & 2) != 0) region = Region::Create(kRegionBytes).value();
  (void)net::Send(node.get(), said, {}, region != nullptr ? region->fd() : -1).ok();
  ::shutdown(node.get(), SHUT_WR);
  const std::unique_ptr<FeedClient> client =
      FeedClient::Over({.stream = std::make_unique<net::SocketStream>(UniqueFd(ends[0])),
                        .numbers = {},
                        .channel = local ? net::Channel::kLocal : net::Channel::kPlain},
                       {.node_id = 3}, {.most_result_bytes = 1 << 20});
  const Mode mode = (how & 4) != 0 ? Mode::kInference : Mode::kTrain;
  const Status fed = Feed(*client, mode, (how & 8) != 0);
  // What was not read is handed to other nodes.
  if (!fed.ok()) {
    for (const UnreadChunk& chunk : client->Unread()) {
      for (const std::byte byte : chunk.bytes) sink = static_cast<std::uint8_t>(byte);
    }
  }
  return 0;
}
