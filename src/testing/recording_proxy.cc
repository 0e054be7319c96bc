#include "testing/recording_proxy.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <span>
#include <utility>

#include "net/socket.h"

namespace tfos::testing {
namespace {

Wait Soon() { return {.deadline = Deadline::After(std::chrono::seconds(60))}; }

}  // namespace

RecordingProxy::RecordingProxy(std::uint16_t server)
    : server_(server),
      end_(::eventfd(0, EFD_CLOEXEC)),
      listener_(net::ListenTcp("127.0.0.1", 0, 0).value()),
      thread_([this] { PassOn(); }) {}

RecordingProxy::~RecordingProxy() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(end_.get(), &one, sizeof(one));
  passed();
}

const std::string& RecordingProxy::passed() {
  if (thread_.joinable()) thread_.join();
  return passed_;
}

void RecordingProxy::PassOn() {
  pollfd first[] = {{.fd = listener_.fd.get(), .events = POLLIN, .revents = 0},
                    {.fd = end_.get(), .events = POLLIN, .revents = 0}};
  ::poll(first, 2, -1);
  if (first[0].revents == 0) return;
  const UniqueFd client(::accept4(listener_.fd.get(), nullptr, nullptr, SOCK_NONBLOCK));
  auto server = net::ConnectTcp("127.0.0.1", server_, Soon());
  if (!client.valid() || !server.ok()) return;
  const std::array<int, 2> ends = {client.get(), server->get()};
  std::array<bool, 2> open = {true, true};
  while (open[0] || open[1]) {
    pollfd both[] = {{.fd = open[0] ? ends[0] : -1, .events = POLLIN, .revents = 0},
                     {.fd = open[1] ? ends[1] : -1, .events = POLLIN, .revents = 0},
                     {.fd = end_.get(), .events = POLLIN, .revents = 0}};
    ::poll(both, 3, -1);
    if (both[2].revents != 0) return;
    for (std::size_t i : {0, 1}) {
      if (both[i].revents == 0) continue;
      std::array<char, 65536> bytes;
      const ssize_t got = ::recv(ends[i], bytes.data(), bytes.size(), 0);
      if (got <= 0) {
        open[i] = false;
        ::shutdown(ends[1 - i], SHUT_WR);
        continue;
      }
      const auto some = std::span(bytes).first(static_cast<std::size_t>(got));
      passed_.append(some.data(), some.size());
      if (!net::SendAll(ends[1 - i], std::as_bytes(some), Soon()).ok()) return;
    }
  }
}

}  // namespace tfos::testing
