#include "testing/middle_man.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "net/socket.h"

namespace tfos::testing {
namespace {

sockaddr_in Loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  return address;
}

UniqueFd ConnectTo(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(port);
  if (!fd.valid() ||
      ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return UniqueFd();
  }
  net::TuneTcp(fd.get());
  return fd;
}

bool SendAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

}  // namespace

/// A connection of a client and the one to the server that belongs to it.
struct MiddleMan::Pair {
  UniqueFd client;
  UniqueFd server;
  std::array<std::uint64_t, 2> passed{};
  std::array<bool, 2> ended{};

  int from(Direction direction) const {
    return direction == Direction::kToServer ? client.get() : server.get();
  }
  int to(Direction direction) const {
    return direction == Direction::kToServer ? server.get() : client.get();
  }
};

MiddleMan::MiddleMan(std::uint16_t server_port, Rule rule)
    : server_port_(server_port),
      rule_(std::move(rule)),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      stop_(::eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (!listener_.valid() || !stop_.valid() || ::bind(listener_.get(), any, size) != 0 ||
      ::listen(listener_.get(), 16) != 0 || ::getsockname(listener_.get(), any, &size) != 0) {
    std::abort();  // A test can't go on.
  }
  port_ = ntohs(address.sin_port);
  thread_ = std::thread([this] { Run(); });
}

MiddleMan::~MiddleMan() {
  const std::uint64_t one = 1;
  if (::write(stop_.get(), &one, sizeof(one)) != sizeof(one)) std::abort();
  thread_.join();
}

std::string MiddleMan::heard(Direction direction) const {
  const MutexLock lock(mutex_);
  return heard_[static_cast<int>(direction)];
}

void MiddleMan::Run() {
  while (true) {
    std::array<pollfd, 2> waiting{{{.fd = stop_.get(), .events = POLLIN, .revents = 0},
                                   {.fd = listener_.get(), .events = POLLIN, .revents = 0}}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if (waiting[0].revents != 0) return;
    Pair pair;
    pair.client.Reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    net::TuneTcp(pair.client.get());
    pair.server = ConnectTo(server_port_);
    if (pair.client.valid() && pair.server.valid()) PassOn(pair);
  }
}

void MiddleMan::PassOn(Pair& pair) {
  while (!pair.ended[0] || !pair.ended[1]) {
    std::array<pollfd, 3> waiting{{{.fd = stop_.get(), .events = POLLIN, .revents = 0}}};
    for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
      const auto which = static_cast<std::size_t>(direction);
      // Poll leaves a descriptor of -1 out.
      waiting[1 + which] = {
          .fd = pair.ended[which] ? -1 : pair.from(direction), .events = POLLIN, .revents = 0};
    }
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if (waiting[0].revents != 0) return;
    for (const Direction direction : {Direction::kToServer, Direction::kToClient}) {
      const auto which = static_cast<std::size_t>(direction);
      if (waiting[1 + which].revents == 0 || PassOnce(pair, direction)) continue;
      pair.ended[which] = true;
      ::shutdown(pair.to(direction), SHUT_WR);
    }
  }
}

bool MiddleMan::PassOnce(Pair& pair, Direction direction) {
  std::array<char, 16 << 10> room;
  const ssize_t got = ::recv(pair.from(direction), room.data(), room.size(), 0);
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  std::string bytes(room.data(), static_cast<std::size_t>(got));
  std::uint64_t& passed = pair.passed[static_cast<std::size_t>(direction)];
  {
    const MutexLock lock(mutex_);
    heard_[static_cast<int>(direction)] += bytes;
  }
  const std::uint64_t at = std::exchange(passed, passed + bytes.size());
  const bool more = rule_(direction, at, bytes);
  return SendAll(pair.to(direction), bytes) && more;
}

}  // namespace tfos::testing
