// What strangers may say to a peer that recognizes them, introduces itself, offers UCX or begins
// TLS: the first byte chooses. Nobody can know the token, so they never come to an agreement.

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <utility>

#include "base/process/unique_fd.h"
#include "collective/mesh/stream_choice.h"
#include "net/handshake.h"
#include "net/socket.h"
#include "net/tls/tls_stream.h"

namespace {

using namespace tfos;  // NOLINT(google-build-using-namespace)

constexpr net::Protocol kProtocol{.magic = "tfos-ten", .version = 4, .name = "tensors"};

const Wait kWait{.deadline = Deadline::After(std::chrono::hours(24))};

const Secret& Token() {
  static const Secret token = Secret::Generate().value();
  return token;
}

/// A socket whose other end has said `words` and says no more.
UniqueFd Hearing(std::span<const std::byte> words, UniqueFd& other) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) std::abort();
  other.Reset(ends[1]);
  (void)net::Send(ends[1], words, {}).ok();
  ::shutdown(ends[1], SHUT_WR);
  return UniqueFd(ends[0]);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  UniqueFd other;
  UniqueFd socket = Hearing(std::as_bytes(std::span(data + 1, size - 1)), other);
  bool agreed = false;
  switch (data[0] % 5) {
    case 0:
      agreed = net::Recognize(
                   socket.get(), kProtocol, Token(), [](net::Numbers) { return Status(); }, kWait)
                   .ok();
      break;
    case 1:
      agreed =
          net::Introduce(socket.get(), kProtocol, Token(), {.connecting = 1, .accepting = 0}, kWait)
              .ok();
      break;
    case 2:
      // Behind the proof: any offer of well-formed sizes is taken, and there is no UCX here.
      (void)collective::ChooseStream(std::move(socket), true, Token(), {}, nullptr, kWait).ok();
      break;
    case 3:
      agreed =
          net::TlsStream::Open(std::move(socket), net::TlsStream::Side::kAccepting, Token(), kWait, {})
              .ok();
      break;
    default:
      agreed =
          net::TlsStream::Open(std::move(socket), net::TlsStream::Side::kConnecting, Token(), kWait, {})
              .ok();
  }
  if (agreed) std::abort();
  return 0;
}
