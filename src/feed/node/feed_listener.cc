#include "feed/node/feed_listener.h"

#include <netdb.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/thread/thread.h"
#include "feed/wire/outbox.h"
#include "net/listen.h"
#include "net/socket.h"

namespace tfos::feed {
namespace {

/// Connections that have not proved the token yet; one more costs the oldest its place.
constexpr std::size_t kStrangersLimit = 256;
/// How long closing waits for feeders to take what was already said to them.
constexpr std::chrono::milliseconds kCloseGrace{500};
/// After running out of descriptors: the pause before the next accept.
constexpr std::chrono::milliseconds kAcceptPause{100};
/// Receives for one connection before the others get their turn.
constexpr int kReceivesPerTurn = 16;

/// Ids of the descriptors other than connections, which count on from there.
enum : std::uint64_t { kWakeId, kUnixListenerId, kTcpListenerId, kFirstConnectionId };

std::string DescribePeer(int fd, bool local) {
  if (local) {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return "this host";
    return fmt::format("process {} of this host", peer.pid);
  }
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), nullptr,
                    0, NI_NUMERICHOST) != 0) {
    return "another host";
  }
  return host.data();
}

}  // namespace

/// One feeder's socket.
struct FeedListener::Connection {
  FeederLink link;
  UniqueFd fd;
  std::string peer;
  FrameReader reader;
  Outbox outbox;
  std::uint32_t watched = 0;  ///< Events asked of epoll.
  bool said_goodbye = false;  ///< Our side is shut down.
  bool authenticated = false;
  Nonce nonce{};
  Clock::TimePoint authenticate_by;
  std::string error_text;  ///< The payload being received, if it is an error.
};

FeedListener::FeedListener(const FeedServerOptions& options, std::shared_ptr<FeedSessions> sessions)
    : options_(options), sessions_(std::move(sessions)), next_connection_(kFirstConnectionId) {}

FeedListener::~FeedListener() { Join(); }

Result<std::unique_ptr<FeedListener>> FeedListener::Start(const FeedServerOptions& options,
                                                          std::shared_ptr<FeedSessions> sessions) {
  std::unique_ptr<FeedListener> listener(new FeedListener(options, std::move(sessions)));
  TFOS_RETURN_IF_ERROR(listener->Listen());
  return listener;
}

Status FeedListener::Listen() {
  epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_.valid()) return Status::FromErrno(errno, "create an epoll set");
  TFOS_ASSIGN_OR_RETURN(const std::string random, RandomHex(16));
  endpoint_.unix_name = fmt::format("tfos-{}-{}-{}", options_.cluster_id, options_.node_id, random);
  endpoint_.node_id = options_.node_id;
  TFOS_ASSIGN_OR_RETURN(unix_listener_, net::ListenUnix(endpoint_.unix_name));
  if (!options_.bind_address.empty()) {
    TFOS_ASSIGN_OR_RETURN(
        net::TcpListener listener,
        net::ListenTcp(options_.bind_address, options_.first_port, options_.last_port));
    tcp_listener_ = std::move(listener.fd);
    endpoint_.port = listener.port;
  }
  const auto add = [&](int fd, std::uint64_t id) -> Status {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
    if (fd < 0 || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
    return Status::FromErrno(errno, "watch a descriptor");
  };
  TFOS_RETURN_IF_ERROR(add(sessions_->wake_fd(), kWakeId));
  TFOS_RETURN_IF_ERROR(add(unix_listener_.get(), kUnixListenerId));
  TFOS_RETURN_IF_ERROR(add(tcp_listener_.get(), kTcpListenerId));
  TFOS_ASSIGN_OR_RETURN(thread_, StartThread("tfos-feed", [this] { Run(); }));
  return {};
}

void FeedListener::Join() {
  if (thread_.joinable()) thread_.join();
}

void FeedListener::Run() {
  std::array<epoll_event, 64> events;
  std::optional<Clock::TimePoint> close_by;
  for (;;) {
    const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()),
                                   PollTimeout(close_by));
    for (int i = 0; i < count; ++i) {
      const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
      const std::uint32_t what = events[static_cast<std::size_t>(i)].events;
      if (id == kWakeId) continue;  // What is to be said comes below.
      if (id == kUnixListenerId) {
        Accept(unix_listener_, /*local=*/true);
      } else if (id == kTcpListenerId) {
        Accept(tcp_listener_, /*local=*/false);
      } else {
        if ((what & EPOLLOUT) != 0) {
          if (const auto it = connections_.find(id); it != connections_.end()) Flush(*it->second);
        }
        if ((what & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
          if (const auto it = connections_.find(id); it != connections_.end()) {
            OnReadable(*it->second);
          }
        }
      }
    }
    FlushChanged();
    DropStrangers();
    if (!close_by) {
      if (!sessions_->closed()) continue;
      close_by = Clock::Steady().Now() + kCloseGrace;
    }
    unix_listener_.Reset();
    tcp_listener_.Reset();
    const bool late = Clock::Steady().Now() >= *close_by;
    for (auto it = connections_.begin(); it != connections_.end();) {
      const Connection& connection = *(it++)->second;
      if (late || (connection.outbox.empty() && sessions_->Settled(connection.link))) {
        Drop(connection.link.id, {ErrorKind::kReconnect, "the node closed"});
      }
    }
    if (connections_.empty()) return;
  }
}

int FeedListener::PollTimeout(std::optional<Clock::TimePoint> close_by) const {
  std::optional<Clock::TimePoint> first = close_by;
  const auto consider = [&first](Clock::TimePoint at) {
    if (!first || at < *first) first = at;
  };
  if (accept_again_) consider(*accept_again_);
  if (!strangers_.empty()) {
    consider(connections_.find(*strangers_.begin())->second->authenticate_by);
  }
  if (!first) return -1;
  return Deadline::After(*first - Clock::Steady().Now()).PollMilliseconds();
}

void FeedListener::Accept(const UniqueFd& listener, bool local) {
  for (;;) {
    UniqueFd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return;
      LogWarning("feed: can't accept a connection: {}", std::strerror(errno));
      accept_again_ = Clock::Steady().Now() + kAcceptPause;
      ListenFor(0);
      return;
    }
    if (!local) net::TuneTcp(fd.get());
    auto connection = std::make_unique<Connection>();
    connection->link.id = next_connection_++;
    connection->link.local = local;
    connection->peer = DescribePeer(fd.get(), local);
    connection->fd = std::move(fd);
    connection->authenticate_by = Clock::Steady().Now() + options_.authentication_timeout;
    connection->reader.set_limits({.data = 0, .result = 0, .error = 0});
    const Result<Nonce> nonce = RandomNonce();
    epoll_event event{.events = EPOLLIN, .data = {.u64 = connection->link.id}};
    if (!nonce.ok() ||
        ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->fd.get(), &event) != 0) {
      continue;  // The connection closes.
    }
    connection->watched = EPOLLIN;
    connection->nonce = *nonce;
    sessions_->Say(connection->link, Encode(Challenge{.nonce = *nonce}));
    strangers_.insert(connection->link.id);
    connections_.emplace(connection->link.id, std::move(connection));
    // At once, not when the backlog is drained: that may be more than there are descriptors.
    if (strangers_.size() > kStrangersLimit) {
      Refuse(*connections_.find(*strangers_.begin())->second,
             {ErrorKind::kBadInput, "too many others wait for authentication"});
    }
  }
}

void FeedListener::ListenFor(std::uint32_t events) {
  for (const auto& [listener, id] :
       {std::pair(&unix_listener_, kUnixListenerId), std::pair(&tcp_listener_, kTcpListenerId)}) {
    epoll_event event{.events = events, .data = {.u64 = id}};
    if (listener->valid()) ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, listener->get(), &event);
  }
}

void FeedListener::DropStrangers() {
  const Clock::TimePoint now = Clock::Steady().Now();
  if (accept_again_ && now >= *accept_again_) {
    accept_again_.reset();
    ListenFor(EPOLLIN);
  }
  while (!strangers_.empty()) {
    Connection& oldest = *connections_.find(*strangers_.begin())->second;
    if (now < oldest.authenticate_by) return;
    Refuse(oldest, {ErrorKind::kBadInput, "it did not authenticate in time"});
  }
}

void FeedListener::OnReadable(Connection& connection) {
  for (int i = 0; i < kReceivesPerTurn; ++i) {
    const Result<bool> more = ReceiveOnce(connection);
    if (!more.ok()) {
      if (more.status().kind() == ErrorKind::kReconnect) {
        Drop(connection.link.id, more.status());
      } else {
        Refuse(connection, more.status());
      }
      return;
    }
    if (!*more) return;
  }
}

/// Whether there may be more. kReconnect: the connection is over; kBadInput: refuse it.
Result<bool> FeedListener::ReceiveOnce(Connection& connection) {
  const bool draining = sessions_->Draining(connection.link);
  const std::span<std::byte> space = draining ? std::span(scratch_) : connection.reader.Space();
  const Result<net::Transfer> transfer = net::Receive(connection.fd.get(), space, nullptr);
  if (!transfer.ok()) return Status(ErrorKind::kReconnect, transfer.status().ToString());
  if (transfer->ended) return Status(ErrorKind::kReconnect, "closed by the feeder");
  if (transfer->blocked) return false;
  const bool more = transfer->bytes == space.size();
  if (draining) return more;
  connection.reader.Filled(transfer->bytes);
  for (;;) {
    TFOS_ASSIGN_OR_RETURN(const FrameReader::Event event, connection.reader.Next());
    if (event == FrameReader::Event::kNone) return more;
    const Status status = OnEvent(connection, event);
    // A feeder that was sent last words may not have read them yet.
    if (!status.ok() && sessions_->Draining(connection.link)) return more;
    TFOS_RETURN_IF_ERROR(status);
  }
}

Status FeedListener::OnEvent(Connection& connection, FrameReader::Event event) {
  const MessageType type = connection.reader.type();
  if (!connection.authenticated) {
    if (event == FrameReader::Event::kMessage && type == MessageType::kHello) {
      return OnHello(connection);
    }
    return {ErrorKind::kBadInput, "a message before authentication"};
  }
  switch (event) {
    case FrameReader::Event::kMessage:
      return sessions_->OnMessage(connection.link, type, connection.reader.body());
    case FrameReader::Event::kPayloadBegin:
      if (type == MessageType::kError) {
        connection.error_text.resize(connection.reader.payload_bytes());
        connection.reader.SetTarget(std::as_writable_bytes(std::span(connection.error_text)));
        return {};
      }
      if (type == MessageType::kData) {
        TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> target,
                              sessions_->OnDataBegin(connection.link, connection.reader.body(),
                                                     connection.reader.payload_bytes()));
        connection.reader.SetTarget(target);
        return {};
      }
      return {ErrorKind::kBadInput,
              fmt::format("a {} message from a feeder", MessageTypeName(type))};
    case FrameReader::Event::kPayloadEnd:
      if (type == MessageType::kError) return {ErrorKind::kReconnect, connection.error_text};
      sessions_->OnDataEnd(connection.link);
      return {};
    case FrameReader::Event::kNone:
      break;
  }
  return {};
}

Status FeedListener::OnHello(Connection& connection) {
  TFOS_ASSIGN_OR_RETURN(const Hello hello, ParseHello(connection.reader.body()));
  if (hello.version != kProtocolVersion) {
    return {ErrorKind::kBadInput, fmt::format("it speaks version {} of the feed protocol, we {}",
                                              hello.version, kProtocolVersion)};
  }
  if (!net::SameProof(FeederProof(options_.token, connection.nonce, hello.nonce), hello.proof)) {
    return {ErrorKind::kBadInput, "it does not know the cluster's token"};
  }
  connection.authenticated = true;
  strangers_.erase(connection.link.id);
  connection.reader.set_limits({.data = connection.link.local ? 0 : kDataLimit, .result = 0});
  sessions_->Say(connection.link,
                 Encode(Welcome{.proof = NodeProof(options_.token, connection.nonce, hello.nonce),
                                .node_id = options_.node_id,
                                .shares_memory = connection.link.local}));
  return {};
}

void FeedListener::Refuse(Connection& connection, const Status& reason) {
  LogWarning("feed: refused a connection from {}: {}", connection.peer, reason.ToString());
  if (connection.authenticated) {
    sessions_->Refuse(connection.link, reason);
    return;
  }
  sessions_->CountRefusal();
  Drop(connection.link.id, reason);
}

void FeedListener::Drop(std::uint64_t connection_id, const Status& reason) {
  const auto it = connections_.find(connection_id);
  Connection& connection = *it->second;
  sessions_->Gone(connection.link,
                  fmt::format("its feeder ({}) is gone: {}", connection.peer, reason.ToString()));
  strangers_.erase(connection_id);
  connections_.erase(it);
}

void FeedListener::FlushChanged() {
  for (const std::uint64_t id : sessions_->TakeChanged()) {
    const auto it = connections_.find(id);
    if (it == connections_.end()) continue;
    // A feeder that has not taken what it was told hears the rest when it has.
    if (it->second->outbox.empty()) Flush(*it->second);
  }
}

void FeedListener::Flush(Connection& connection) {
  FeedSessions::AfterSent after;
  Outbox::Flushed flushed;
  do {
    if (connection.outbox.empty()) {
      for (OutFrame& frame : sessions_->TakePosted(connection.link)) {
        connection.outbox.Add(std::move(frame));
      }
    }
    const Result<Outbox::Flushed> result = connection.outbox.Flush(connection.fd.get());
    if (!result.ok()) {
      Drop(connection.link.id, result.status());
      return;
    }
    flushed = *result;
    after = sessions_->Sent(connection.link, flushed.result_bytes);
  } while (after.more && connection.outbox.empty());
  if (after.last_word && connection.outbox.empty() &&
      !std::exchange(connection.said_goodbye, true)) {
    ::shutdown(connection.fd.get(), SHUT_WR);
  }
  Watch(connection, flushed.blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void FeedListener::Watch(Connection& connection, std::uint32_t events) {
  if (std::exchange(connection.watched, events) == events) return;
  epoll_event event{.events = events, .data = {.u64 = connection.link.id}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event);
}

}  // namespace tfos::feed
