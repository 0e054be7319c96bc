// What a parameter server says to a worker that it has shaken hands with. The first byte chooses
// between the Unix socket, over which its memory comes along, and TCP, and what the worker does;
// the rest are the server's messages. Over the Unix socket the memory changes while the worker
// reads it: nothing but errors and odd values may come of it.

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "base/format.h"
#include "base/memory/shared_memory.h"
#include "base/time/wait.h"
#include "changer.h"
#include "guest.h"
#include "net/listen.h"
#include "net/socket.h"
#include "parameter_server/model/store.h"
#include "parameter_server/server_link.h"
#include "parameter_server/wire/protocol.h"
#include "quiet.h"

namespace {

using namespace tfos;                    // NOLINT(google-build-using-namespace)
using namespace tfos::parameter_server;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kShareBytes = 256;

/// Says all of it to one worker. The memory goes with the first byte.
void Serve(int listener, const Secret& key, std::string_view said, const SharedMemory* memory) {
  const auto worker = AcceptGuest(listener, {.protocol = kProtocol, .key = key});
  if (worker == nullptr) return;
  if (memory != nullptr && !said.empty()) {
    const auto sent =
        net::Send(worker->fd(), std::as_bytes(std::span(said.substr(0, 1))), {}, memory->fd());
    if (sent.ok()) said.remove_prefix(sent->bytes);
  }
  Say(*worker, said);
  Drain(*worker);
}

void Work(ServerLink& link, std::uint8_t how) {
  std::vector<std::byte> values(kShareBytes);
  if ((how & 2) != 0) {
    std::ranges::fill(link.outgoing(), std::byte{1});
    link.Start({.push = true, .pull = values});
    link.Filled(kShareBytes);
  } else {
    link.Start({.push = false, .pull = values});
  }
  while (!link.WaitFor(kCheckInterval)) {
  }
  if ((how & 4) != 0) {
    link.Start({.pull = values, .part = 1});
    while (!link.WaitFor(kCheckInterval)) {
    }
  }
  if ((how & 8) != 0) (void)link.Write(0, values).ok();
  if ((how & 16) != 0) (void)link.StartAt(7).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  LogOnly("OFF");
  static const Secret key = Secret::Generate().value();
  static const SharedMemory memory =
      SharedMemory::Create("fuzz", StoreMemoryBytes(kShareBytes), SharedMemory::Writers::kCreator)
          .value();
  if (size == 0) return 0;
  const std::uint8_t how = data[0];
  const bool local = how % 2 == 0;
  const std::string_view said(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::string name = fmt::format("tfos-fuzz-link-{}", ::getpid());
  net::TcpListener tcp = net::ListenTcp("127.0.0.1", 0, 0).value();
  const UniqueFd listener = local ? net::ListenUnix(name).value() : std::move(tcp.fd);
  std::thread server([&] { Serve(listener.get(), key, said, local ? &memory : nullptr); });
  ServerLink::Options options;
  options.server = {.name = "ps:0",
                    .address = "127.0.0.1",
                    .port = tcp.port,
                    .local_name = local ? name : std::string()};
  options.key = key;
  options.open.name = "worker:0";
  options.open.share = {{DType::kFloat32, kShareBytes / sizeof(float)}};
  options.share_bytes = kShareBytes;
  options.stall_after = std::chrono::hours(1);
  options.wait = ForLong();
  {
    // The head, with the version and the counters of blocks, is what the worker trusts least.
    std::optional<Changer> changer;
    if (local) changer.emplace(memory.bytes().first(128), how);
    auto link = ServerLink::Connect(std::move(options));
    if (link.ok()) Work(**link, how);
  }
  server.join();
  return 0;
}
