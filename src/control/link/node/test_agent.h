#ifndef TFOS_CONTROL_LINK_NODE_TEST_AGENT_H_
#define TFOS_CONTROL_LINK_NODE_TEST_AGENT_H_

#include <gtest/gtest.h>
#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "base/process/unique_fd.h"
#include "base/time/deadline.h"
#include "control/link/node/node_link.h"
#include "control/messages/node_messages.h"
#include "control/messages/parts/message_text.h"

namespace tfos::control {

/// What a test waits for comes sooner.
inline constexpr std::chrono::seconds kLong(30);

/// The agent's end of a node's link, in a test.
///
/// Owner and lifetime: a local of a test; has both ends of the socket pair until the node's is
/// taken. Threads: one at a time. What goes wrong fails the test.
class FakeAgent {
 public:
  FakeAgent() {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
      ADD_FAILURE() << "no socket pair";
    }
    ours_.Reset(ends[0]);
    theirs_.Reset(ends[1]);
  }

  void Write(const std::string& text) {
    EXPECT_EQ(::write(ours_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// False once the node has ended.
  bool TryToWrite(std::string_view text) {
    while (!text.empty()) {
      const ssize_t sent = ::send(ours_.get(), text.data(), text.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      text.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void WriteHead(const std::string& payload) {
    NodeBootstrap bootstrap;
    bootstrap.job_name = "worker";
    bootstrap.heartbeat_interval = std::chrono::milliseconds(10);
    bootstrap.payload_bytes = static_cast<std::int64_t>(payload.size());
    Write(SerializeMessage(bootstrap) + "\n" + payload);
  }
  /// The next line. At the end of the stream: what came after the last one.
  std::string ReadLine() {
    // In blocks: a line may have megabytes, and a call for each byte takes minutes on a busy host.
    std::array<char, 65536> block;
    std::size_t searched = 0;
    while (true) {
      if (const std::size_t end = unread_.find('\n', searched); end != std::string::npos) {
        std::string line = unread_.substr(0, end);
        unread_.erase(0, end + 1);
        return line;
      }
      searched = unread_.size();
      const ssize_t got = ::read(ours_.get(), block.data(), block.size());
      if (got <= 0) return std::exchange(unread_, "");
      unread_.append(block.data(), static_cast<std::size_t>(got));
    }
  }
  /// Until the node has sent something.
  void AwaitSome() {
    pollfd polled{.fd = ours_.get(), .events = POLLIN, .revents = 0};
    EXPECT_EQ(::poll(&polled, 1, static_cast<int>(std::chrono::milliseconds(kLong).count())), 1);
  }
  /// Until the node has read all that was written.
  void AwaitTaken() {
    int waiting = 1;
    while (::ioctl(ours_.get(), SIOCOUTQ, &waiting) == 0 && waiting > 0) std::this_thread::yield();
    EXPECT_EQ(waiting, 0);
  }
  void Close() { ours_.Reset(); }
  UniqueFd TakeNodeEnd() { return std::move(theirs_); }

  Result<std::unique_ptr<NodeLink>> OpenLink() {
    return NodeLink::Open(TakeNodeEnd(), Deadline::After(kLong));
  }

 private:
  UniqueFd ours_;
  UniqueFd theirs_;
  std::string unread_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_NODE_TEST_AGENT_H_
