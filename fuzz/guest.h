#ifndef TFOS_FUZZ_GUEST_H_
#define TFOS_FUZZ_GUEST_H_

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/process/unique_fd.h"
#include "base/time/wait.h"
#include "net/handshake/handshake.h"
#include "net/poll.h"
#include "net/socket.h"
#include "net/stream.h"

// What a fuzz target does that stands in for the end that others connect to.
//
// Threads: one at a time for each stream. Errors: the target ends when its own end is at fault.
namespace tfos {

/// Nothing here is to end by time.
inline Wait ForLong() { return {.deadline = Deadline::After(std::chrono::hours(24))}; }

/// Waits for one who connects, and shakes hands with it. Null when that one has gone.
inline std::unique_ptr<net::Stream> AcceptGuest(int listener, const net::Party& party) {
  UniqueFd socket;
  while (!socket.valid()) {
    if (!net::Poll(listener, POLLIN, ForLong()).ok()) std::abort();
    socket.Reset(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  }
  net::Handshake handshake = net::Handshake::Accepting(std::move(socket), party, {});
  if (!net::Finish(handshake, ForLong()).ok()) return nullptr;
  return handshake.Take().stream;
}

/// What comes up to the end of `until`, or of the connection.
inline std::string Hear(net::Stream& stream, std::string_view until) {
  std::string heard;
  while (!heard.ends_with(until)) {
    std::array<std::byte, 1> room;
    const auto got = stream.Receive(room);
    if (!got.ok() || got->ended) return heard;
    if (got->blocked) {
      (void)net::Poll(stream.fd(), POLLIN, ForLong()).ok();
    } else {
      heard += static_cast<char>(room[0]);
    }
  }
  return heard;
}

/// Says all of it, unless the other end goes.
inline void Say(net::Stream& stream, std::string_view text) {
  (void)net::SendAll(stream, std::as_bytes(std::span(text)), ForLong()).ok();
}

/// Says no more, and hears what the other end says until it closes the connection.
inline void Drain(net::Stream& stream) {
  ::shutdown(stream.fd(), SHUT_WR);
  std::array<std::byte, 4096> room;
  while (true) {
    const auto got = stream.Receive(room);
    if (!got.ok() || got->ended) return;
    if (got->blocked) (void)net::Poll(stream.fd(), POLLIN, ForLong()).ok();
  }
}

}  // namespace tfos

#endif  // TFOS_FUZZ_GUEST_H_
