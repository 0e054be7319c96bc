#ifndef TFOS_CONTROL_AGENT_CHILD_TAMPERED_TUNNEL_FIXTURE_H_
#define TFOS_CONTROL_AGENT_CHILD_TAMPERED_TUNNEL_FIXTURE_H_

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/process/unique_fd.h"
#include "base/thread/mutex.h"
#include "net/listen.h"
#include "net/poll.h"
#include "net/socket.h"
#include "testing/send_all.h"

// The two ends of what goes through a tunnel to TensorBoard, for tests.

namespace tfos::control {

/// The coordinator passes its head on as it is.
inline constexpr std::string_view kAnswer =
    "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nsummaries of the training";
inline constexpr std::string_view kEndOfRequest = "\r\n\r\n";

/// A bound for what never takes long.
inline Wait Long() { return {.deadline = Deadline::After(std::chrono::seconds(60))}; }

/// What came over a connection.
struct Heard {
  std::string bytes = {};
  bool whole = false;  ///< The other end has ended it, and not broken it off.
};

/// Up to the end of a connection, or `enough`.
inline Heard Hear(int fd, std::string_view enough = {}) {
  Heard heard;
  while (enough.empty() || !heard.bytes.ends_with(enough)) {
    std::array<std::byte, 4096> room;
    const auto got = net::Receive(fd, room, nullptr);
    if (!got.ok()) return heard;
    if (got->ended) {
      heard.whole = true;
      return heard;
    }
    heard.bytes.append(reinterpret_cast<const char*>(room.data()), got->bytes);
    if (got->blocked && !net::Poll(fd, POLLIN, Long()).ok()) return heard;
  }
  heard.whole = true;
  return heard;
}

inline void Say(int fd, std::string_view text) {
  // The other end may have gone.
  static_cast<void>(tfos::testing::SendAll(fd, std::as_bytes(std::span(text)), Long()).ok());
}

/// Takes one request after the other, and answers each whole one with kAnswer.
///
/// Owner and lifetime: the test. Threads: its own one serves. Errors: fail the test.
class FakeTensorBoard {
 public:
  FakeTensorBoard() {
    auto listener = net::ListenTcp("127.0.0.1", 0, 0);
    EXPECT_TRUE(listener.ok()) << listener.status().ToString();
    port_ = listener->port;
    listener_ = std::move(listener->fd);
    thread_ = std::thread([this] { Run(); });
  }
  ~FakeTensorBoard() {
    ::shutdown(listener_.get(), SHUT_RDWR);  // Ends the wait for the next one.
    thread_.join();
  }

  std::uint16_t port() const { return port_; }

  /// What each connection has said, since the last call.
  std::vector<Heard> Take() TFOS_EXCLUDES(mutex_) {
    // Connections are taken in their order. So all that came before this one are heard by then.
    const auto last = net::ConnectTcp("127.0.0.1", port_, Long());
    EXPECT_TRUE(last.ok()) << last.status().ToString();
    Say(last->get(), kLast);
    EXPECT_EQ(::shutdown(last->get(), SHUT_WR), 0);
    const MutexLock lock(mutex_);
    while (heard_.empty() || heard_.back().bytes != kLast) changed_.Wait(mutex_);
    heard_.pop_back();
    return std::exchange(heard_, {});
  }

 private:
  static constexpr std::string_view kLast = "that was all\r\n\r\n";

  void Run() TFOS_EXCLUDES(mutex_) {
    while (net::Poll(listener_.get(), POLLIN, {}).ok()) {
      const UniqueFd client(
          ::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!client.valid()) return;
      Serve(client.get());
    }
  }

  void Serve(int client) TFOS_EXCLUDES(mutex_) {
    Heard heard = Hear(client, kEndOfRequest);
    if (heard.bytes.ends_with(kEndOfRequest)) Say(client, kAnswer);
    ::shutdown(client, SHUT_WR);
    heard.bytes += Hear(client).bytes;
    const MutexLock lock(mutex_);
    heard_.push_back(std::move(heard));
    changed_.NotifyAll();
  }

  std::uint16_t port_ = 0;
  UniqueFd listener_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<Heard> heard_ TFOS_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_CHILD_TAMPERED_TUNNEL_FIXTURE_H_
