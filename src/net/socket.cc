#include "net/socket.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/format.h"
#include "net/poll.h"
#include "net/unix_address.h"

namespace tfos::net {
namespace {

/// For an address of a name that has more of them: three SYNs are sent anew within it.
constexpr std::chrono::seconds kMostForOneOfSeveral{10};
constexpr int kSocketFlags = SOCK_NONBLOCK | SOCK_CLOEXEC;

Status FinishConnect(int fd, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(const short ready, Poll(fd, POLLOUT, wait));
  if (ready == 0) return {ErrorKind::kRetryLater, "no connection within the deadline"};
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return Status::FromErrno(error, "connect");
  return {};
}

/// `wait`, as far as it is for an address with so many behind it.
Wait ShareOf(const Wait& wait, int others) {
  if (others == 0) return wait;
  const Clock::Duration share = wait.deadline.Remaining() / (others + 1);
  return {.deadline = Deadline::After(std::min<Clock::Duration>(share, kMostForOneOfSeveral)),
          .check = wait.check};
}

}  // namespace

Result<std::optional<UniqueFd>> ConnectUnix(std::string_view name, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(const UnixAddress address, AbstractAddress(name));
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | kSocketFlags, 0));
  if (!fd.valid()) return Status::FromErrno(errno, "create a Unix socket");
  while (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address.address), address.size) !=
         0) {
    if (errno == ECONNREFUSED || errno == ENOENT) return std::optional<UniqueFd>();
    // A full backlog: the kernel has nothing to poll for.
    if (errno != EAGAIN && errno != EINTR) {
      return Status::FromErrno(errno, "connect to the node's socket");
    }
    if (wait.deadline.passed()) {
      return Status(ErrorKind::kRetryLater, "the node accepted no connection within the deadline");
    }
    if (wait.check) TFOS_RETURN_IF_ERROR(wait.check());
    ::poll(nullptr, 0, 10);
  }
  return std::optional<UniqueFd>(std::move(fd));
}

Result<UniqueFd> ConnectTcp(const std::string& host, std::uint16_t port, const Wait& wait,
                            std::optional<std::chrono::milliseconds> unanswered_limit,
                            Lookup lookup) {
  TFOS_ASSIGN_OR_RETURN(const Addresses addresses, Resolve(host, port, wait, lookup));
  Status failure;
  int others = -1;  // Behind the one that is tried.
  for (const addrinfo* any = addresses.get(); any != nullptr; any = any->ai_next) ++others;
  for (const addrinfo* address = addresses.get(); address != nullptr;
       address = address->ai_next, --others) {
    UniqueFd fd(::socket(address->ai_family, SOCK_STREAM | kSocketFlags, 0));
    if (!fd.valid()) return Status::FromErrno(errno, "create a TCP socket");
    if (unanswered_limit) {
      const auto patience = static_cast<unsigned>(unanswered_limit->count());
      ::setsockopt(fd.get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof(patience));
    }
    Status connected;
    if (::connect(fd.get(), address->ai_addr, address->ai_addrlen) != 0) {
      connected = errno == EINPROGRESS ? FinishConnect(fd.get(), ShareOf(wait, others))
                                       : Status::FromErrno(errno, "connect");
    }
    if (connected.ok()) {
      TuneTcp(fd.get());
      return fd;
    }
    if (connected.code().value() == ETIMEDOUT) {
      connected = {ErrorKind::kReconnect, "its host does not answer"};
    }
    // One that did not answer says least.
    if (failure.ok() || failure.kind() == ErrorKind::kRetryLater) failure = connected;
  }
  return failure.Annotate(fmt::format("connect to {} port {}", host, port));
}

void TuneTcp(int fd) {
  const auto set = [fd](int level, int option, int value) {
    ::setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  // A host that is gone is noticed within 30 s, kUnacknowledgedLimit.
  set(IPPROTO_TCP, TCP_KEEPIDLE, 10);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 4);
}

Result<Transfer> Send(int fd, std::span<const std::byte> first, std::span<const std::byte> second,
                      int pass) {
  iovec pieces[2] = {{const_cast<std::byte*>(first.data()), first.size()},
                     {const_cast<std::byte*>(second.data()), second.size()}};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (pass >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &pass, sizeof(pass));
  }
  for (;;) {
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) return Transfer{.bytes = static_cast<std::size_t>(sent)};
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Transfer{.blocked = true};
    if (errno != EINTR) return Status::FromErrno(errno, "send");
  }
}

Result<Transfer> Receive(int fd, std::span<std::byte> space, UniqueFd* passed) {
  iovec piece{space.data(), space.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
  for (;;) {
    message.msg_control = passed == nullptr ? nullptr : control;
    message.msg_controllen = passed == nullptr ? 0 : sizeof(control);
    const ssize_t received = ::recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (received < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Transfer{.blocked = true};
      if (errno == EINTR) continue;
      return Status::FromErrno(errno, "receive");
    }
    if (passed != nullptr) {
      for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr;
           header = CMSG_NXTHDR(&message, header)) {
        if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
        // Padding leaves room for a second one, which must not be leaked.
        const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t i = 0; i < count; ++i) {
          int descriptor = -1;
          std::memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof(descriptor));
          passed->Reset(descriptor);
        }
      }
    }
    return Transfer{.bytes = static_cast<std::size_t>(received), .ended = received == 0};
  }
}

}  // namespace tfos::net
