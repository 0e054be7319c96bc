// What strangers may say to a peer that accepts them or connects to them, over a Unix socket or
// TCP, and to what comes behind the handshake: the offer of UCX, and TLS. The first byte chooses.
// Nobody can know the key, so they never come to an agreement.

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <utility>

#include "base/process/unique_fd.h"
#include "collective/mesh/stream_choice.h"
#include "net/handshake/handshake.h"
#include "net/listen.h"
#include "net/poll.h"
#include "net/socket.h"
#include "net/tls/tls_stream.h"

namespace {

using namespace tfos;  // NOLINT(google-build-using-namespace)

constexpr net::Protocol kProtocol{.magic = "tfos-ten", .version = 5, .name = "tensors"};

const Wait kWait{.deadline = Deadline::After(std::chrono::hours(24))};

const Secret& Key() {
  static const Secret key = Secret::Generate().value();
  return key;
}

net::Party Ours() {
  return {.protocol = kProtocol, .key = Key(), .encryption = net::Encryption::kAlways};
}

struct Ends {
  UniqueFd ours;
  UniqueFd other;
};

Ends OverUnix() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

Ends OverTcp() {
  static const net::TcpListener listener = net::ListenTcp("127.0.0.1", 0, 0).value();
  Ends ends;
  ends.other = net::ConnectTcp("127.0.0.1", listener.port, kWait).value();
  while (!ends.ours.valid()) {
    (void)net::Poll(listener.fd.get(), POLLIN, kWait).ok();
    ends.ours.Reset(::accept4(listener.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }
  return ends;
}

bool Accepts(UniqueFd socket) {
  net::Handshake handshake = net::Handshake::Accepting(std::move(socket), Ours(), {});
  return net::Finish(handshake, kWait).ok();
}

bool Connects(UniqueFd socket) {
  return net::ShakeHands(std::move(socket), Ours(), {.connecting = 1, .accepting = 0}, kWait).ok();
}

bool OpensTls(UniqueFd socket, net::TlsStream::Side side) {
  return net::TlsStream::Open(std::move(socket), side, Key(), kWait, {}).ok();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const int way = data[0] % 7;
  Ends ends = way >= 5 ? OverTcp() : OverUnix();
  // The other end has said these words and says no more.
  (void)net::Send(ends.other.get(), std::as_bytes(std::span(data + 1, size - 1)), {}).ok();
  ::shutdown(ends.other.get(), SHUT_WR);
  bool agreed = false;
  switch (way) {
    case 0:
    case 5:
      agreed = Accepts(std::move(ends.ours));
      break;
    case 1:
    case 6:
      agreed = Connects(std::move(ends.ours));
      break;
    case 2:
      // Behind the proof: any offer of well-formed sizes is taken, and there is no UCX here.
      (void)collective::ChooseStream(std::make_unique<net::SocketStream>(std::move(ends.ours)),
                                     nullptr, kWait)
          .ok();
      break;
    case 3:
      agreed = OpensTls(std::move(ends.ours), net::TlsStream::Side::kAccepting);
      break;
    default:
      agreed = OpensTls(std::move(ends.ours), net::TlsStream::Side::kConnecting);
  }
  if (agreed) std::abort();
  return 0;
}
