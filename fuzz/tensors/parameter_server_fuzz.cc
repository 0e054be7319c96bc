// What a client may say to a parameter server that it has shaken hands with. The first byte chooses
// between the Unix socket, over which memory comes along, and TCP, and whether the server comes in
// place of a lost one; the rest are its messages.

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/memory/shared_memory.h"
#include "guest.h"
#include "net/handshake/handshake.h"
#include "net/listen.h"
#include "net/socket.h"
#include "parameter_server/model/layout.h"
#include "parameter_server/server.h"
#include "parameter_server/wire/protocol.h"
#include "quiet.h"

namespace {

using namespace tfos;                    // NOLINT(google-build-using-namespace)
using namespace tfos::parameter_server;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;

/// The variables take gigabytes of a server that has them: right, and slow.
bool TakesMuchMemory(std::span<const std::byte> messages) {
  if (messages.size() < kHeaderBytes) return false;
  const auto header = ParseHeader(messages.first<kHeaderBytes>());
  // The server refuses whatever else comes first.
  if (!header.ok() || header->type != MessageType::kOpen ||
      header->bytes > messages.size() - kHeaderBytes) {
    return false;
  }
  const auto open = ParseOpen(messages.subspan(kHeaderBytes, header->bytes));
  if (!open.ok()) return false;
  const auto layout = Layout::Of(open->share);
  return layout.ok() && layout->bytes() > kMostBytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  LogOnly("ERROR");
  static const Secret key = Secret::Generate().value();
  static const SharedMemory region =
      SharedMemory::Create("fuzz", 4096, SharedMemory::Writers::kAll).value();
  if (size == 0) return 0;
  auto messages = std::as_bytes(std::span(data + 1, size - 1));
  if (TakesMuchMemory(messages)) return 0;
  const bool local = data[0] % 2 == 0;
  net::TcpListener listener = net::ListenTcp("127.0.0.1", 0, 0).value();
  const std::string name = fmt::format("tfos-fuzz-{}", ::getpid());
  auto server = Server::Create({.key = key,
                                .listener = std::move(listener.fd),
                                .local_name = name,
                                .returns = (data[0] & 2) != 0,
                                .patience_for_copies = std::chrono::milliseconds(0)});
  if (!server.ok()) std::abort();
  std::thread serving([&] { (void)(*server)->Run().ok(); });
  UniqueFd socket = local ? std::move(*net::ConnectUnix(name, ForLong()).value())
                          : net::ConnectTcp("127.0.0.1", listener.port, ForLong()).value();
  auto connection = net::ShakeHands(std::move(socket), {.protocol = kProtocol, .key = key},
                                    {.connecting = 1, .accepting = 0}, ForLong());
  if (!connection.ok()) std::abort();
  net::Stream& stream = *connection->stream;
  if (local && !messages.empty()) {
    const auto sent = net::Send(stream.fd(), messages.first(1), {}, region.fd());
    if (sent.ok()) messages = messages.subspan(sent->bytes);
  }
  (void)net::SendAll(stream, messages, ForLong()).ok();
  Drain(stream);
  (*server)->Stop();
  serving.join();
  return 0;
}
