#include "feed/node/feed_listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/thread/guarded.h"
#include "base/thread/thread.h"
#include "feed/wire/outbox.h"
#include "net/ack_watch.h"
#include "net/listen.h"
#include "net/stream.h"

namespace tfos::feed {
namespace {

/// How long closing waits for feeders to take what was already said to them.
constexpr std::chrono::milliseconds kCloseGrace{500};
/// Received from one connection before the others get their turn.
constexpr std::size_t kBytesPerTurn = std::size_t{1} << 20;

/// From then on people are told whom the program waits for.
constexpr std::chrono::seconds kTellStuck{30};

/// Ids of the descriptors other than connections, which count on from there.
enum : std::uint64_t { kWakeId, kAcceptorId, kFirstConnectionId };

}  // namespace

/// One feeder that is let in.
struct FeedListener::Connection {
  FeederLink link;
  std::unique_ptr<net::Stream> stream;
  std::string peer;
  FrameReader reader;
  Outbox outbox;
  net::AckWatch acks;
  std::optional<Clock::TimePoint> stuck_since;  ///< It has taken nothing of the outbox since then.
  bool told_stuck = false;
  std::uint32_t watched = 0;  ///< Events asked of epoll.
  bool said_goodbye = false;  ///< Our side is shut down.
  std::string error_text;     ///< The payload being received, if it is an error.
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
  const std::uint32_t node_id = options_.node_id;
  TFOS_ASSIGN_OR_RETURN(
      acceptor_,
      net::Acceptor::Create(
          {.party = {.protocol = kFeedProtocol,
                     .key = options_.key,
                     .encryption = options_.encryption},
           .what = fmt::format("the feed of node {}", node_id),
           .accepts = [node_id](const net::Numbers& numbers) -> Status {
             if (numbers.accepting == node_id) return {};
             return {ErrorKind::kBadInput, fmt::format("it looks for node {}", numbers.accepting)};
           },
           .most_strangers = net::Acceptor::AsManyAsDescriptorsAllow(),
           .patience = options_.handshake_patience}));
  TFOS_ASSIGN_OR_RETURN(const std::string random, RandomHex(16));
  endpoint_.unix_name = fmt::format("tfos-{}-{}-{}", options_.cluster_id, node_id, random);
  endpoint_.node_id = node_id;
  TFOS_ASSIGN_OR_RETURN(UniqueFd local, net::ListenUnix(endpoint_.unix_name));
  TFOS_RETURN_IF_ERROR(acceptor_->Listen(std::move(local)));
  if (!options_.bind_address.empty()) {
    TFOS_ASSIGN_OR_RETURN(
        net::TcpListener listener,
        net::ListenTcp(options_.bind_address, options_.first_port, options_.last_port));
    TFOS_RETURN_IF_ERROR(acceptor_->Listen(std::move(listener.fd)));
    endpoint_.port = listener.port;
  }
  for (const auto& [fd, id] : {std::pair(sessions_->wake_fd(), std::uint64_t{kWakeId}),
                               std::pair(acceptor_->fd(), std::uint64_t{kAcceptorId})}) {
    epoll_event event{.events = EPOLLIN, .data = {.u64 = id}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return Status::FromErrno(errno, "watch a descriptor");
    }
  }
  const auto run = [this] {
    Guarded([this] { Run(); }, [this](ErrorKind /*kind*/, const char* why) { GiveUp(why); });
  };
  TFOS_ASSIGN_OR_RETURN(thread_, StartThread("tfos-feed", run));
  return {};
}

void FeedListener::GiveUp(const char* why) {
  acceptor_->Close();
  // The connections stay, as the sessions know them.
  for (const auto& [id, connection] : connections_) {
    ::shutdown(connection->stream->fd(), SHUT_RDWR);
  }
  // Without memory of its own, which may be what was lacking.
  std::array<char, 200> line;
  const auto end = fmt::format_to_n(line.data(), line.size(),
                                    "feed: the node takes no rows any more, as its listener has "
                                    "ended: {}",
                                    why);
  WriteLog(LogLevel::kError, {line.data(), std::min(end.size, line.size())});
}

void FeedListener::Join() {
  if (thread_.joinable()) thread_.join();
}

void FeedListener::Run() {
  std::optional<Clock::TimePoint> close_by;
  for (;;) {
    OnEvents(WaitForEvents(close_by));
    ReadHeld();
    FlushChanged();
    LookAtPeers();
    if (!close_by) {
      if (!sessions_->closed()) continue;
      close_by = Clock::Steady().Now() + kCloseGrace;
      acceptor_->Close();
    }
    if (CloseConnections(*close_by)) return;
  }
}

std::size_t FeedListener::WaitForEvents(std::optional<Clock::TimePoint> close_by) {
  int milliseconds = -1;
  if (close_by) {
    milliseconds = Deadline::After(*close_by - Clock::Steady().Now()).PollMilliseconds();
  }
  if (!connections_.empty()) {
    const int look = Deadline::After(next_look_ - Clock::Steady().Now()).PollMilliseconds();
    milliseconds = milliseconds < 0 ? look : std::min(milliseconds, look);
  }
  if (!holding_.empty()) milliseconds = 0;
  const int count =
      ::epoll_wait(epoll_.get(), events_.data(), static_cast<int>(events_.size()), milliseconds);
  return count < 0 ? 0 : static_cast<std::size_t>(count);
}

void FeedListener::OnEvents(std::size_t count) {
  for (const epoll_event& event : std::span(events_).first(count)) {
    const std::uint64_t id = event.data.u64;
    if (id == kWakeId) continue;  // What is to be said comes later.
    if (id == kAcceptorId) {
      LetIn();
      continue;
    }
    if ((event.events & EPOLLOUT) != 0) {
      if (const auto it = connections_.find(id); it != connections_.end()) Flush(*it->second);
    }
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0) {
      if (const auto it = connections_.find(id); it != connections_.end()) OnReadable(*it->second);
    }
  }
}

void FeedListener::LetIn() {
  for (net::Guest& guest : acceptor_->Progress()) {
    auto connection = std::make_unique<Connection>();
    connection->link.id = next_connection_++;
    connection->link.local = guest.connection.channel == net::Channel::kLocal;
    connection->peer = std::move(guest.peer);
    connection->stream = std::move(guest.connection.stream);
    connection->reader.set_limits({.data = connection->link.local ? 0 : kDataLimit, .result = 0});
    epoll_event event{.events = EPOLLIN, .data = {.u64 = connection->link.id}};
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->stream->fd(), &event) != 0) {
      LogWarning("feed: can't watch the connection of {}: {}", connection->peer,
                 Status::FromErrno(errno, "epoll_ctl").ToString());
      continue;  // The connection closes.
    }
    connection->watched = EPOLLIN;
    if (connection->stream->holds_bytes()) holding_.insert(connection->link.id);
    connections_.emplace(connection->link.id, std::move(connection));
  }
  for (; refused_ < acceptor_->refused(); ++refused_) sessions_->CountRefusal();
}

bool FeedListener::CloseConnections(Clock::TimePoint close_by) {
  const bool late = Clock::Steady().Now() >= close_by;
  for (auto it = connections_.begin(); it != connections_.end();) {
    const Connection& connection = *(it++)->second;
    if (late || (connection.outbox.empty() && sessions_->Settled(connection.link))) {
      Drop(connection.link.id, {ErrorKind::kReconnect, "the node closed"});
    }
  }
  return connections_.empty();
}

void FeedListener::LookAtPeers() {
  const Clock::TimePoint now = Clock::Steady().Now();
  if (now < next_look_) return;
  next_look_ = now + net::kAckInterval;
  for (auto it = connections_.begin(); it != connections_.end();) {
    Connection& connection = *(it++)->second;
    const Status there = LookAt(connection, now);
    if (there.ok()) continue;
    LogWarning("feed: gave up the connection of {}: {}", connection.peer, there.ToString());
    Drop(connection.link.id, there);
  }
}

Status FeedListener::LookAt(Connection& connection, Clock::TimePoint now) {
  TFOS_RETURN_IF_ERROR(net::CheckAcknowledged(connection.acks, connection.stream->fd()));
  if (!connection.stuck_since) return {};
  const Clock::Duration stuck = now - *connection.stuck_since;
  const auto seconds = std::chrono::floor<std::chrono::seconds>(stuck).count();
  if (stuck >= options_.results_patience) {
    return {ErrorKind::kReconnect, fmt::format("it has taken no results for {} s", seconds)};
  }
  if (stuck >= kTellStuck && !std::exchange(connection.told_stuck, true)) {
    LogWarning(
        "feed: the program waits for {}, which has taken no results for {} s: its Spark task "
        "stands still, or what it hands the results to is slow",
        connection.peer, seconds);
  }
  return {};
}

/// Once for each, so that the others get their turn.
void FeedListener::ReadHeld() {
  for (const std::uint64_t id : std::exchange(holding_, {})) {
    if (const auto it = connections_.find(id); it != connections_.end()) OnReadable(*it->second);
  }
}

void FeedListener::OnReadable(Connection& connection) {
  const std::uint64_t id = connection.link.id;
  for (std::size_t received = 0; received < kBytesPerTurn;) {
    const Result<bool> more = ReceiveOnce(connection, received);
    if (!more.ok()) {
      if (more.status().kind() == ErrorKind::kReconnect) {
        Drop(id, more.status());
      } else {
        Refuse(connection, more.status());
        if (connection.stream->holds_bytes()) holding_.insert(id);
      }
      return;
    }
    if (!*more) return;
  }
  // The socket shows what is left, and what is not in the socket any more is remembered.
  if (connection.stream->holds_bytes()) holding_.insert(id);
}

/// Whether there may be more. kReconnect: the connection is over; kBadInput: refuse it.
Result<bool> FeedListener::ReceiveOnce(Connection& connection, std::size_t& received) {
  const bool draining = sessions_->Draining(connection.link);
  const std::span<std::byte> space = draining ? std::span(scratch_) : connection.reader.Space();
  const Result<net::Transfer> transfer = connection.stream->Receive(space);
  if (!transfer.ok()) {
    if (transfer.status().kind() != ErrorKind::kBadInput) {
      return Status(ErrorKind::kReconnect, transfer.status().ToString());
    }
    // A session that has brought no rows ends without a line in the log, so this is said here.
    LogWarning("feed: closing the connection of {}: data was altered in transit: {}",
               connection.peer, transfer.status().ToString());
    return Status(ErrorKind::kReconnect, "the node closed its connection, as said before");
  }
  if (transfer->ended) return Status(ErrorKind::kReconnect, "closed by the feeder");
  if (transfer->blocked) return false;
  received += transfer->bytes;
  const bool more = transfer->bytes == space.size() || connection.stream->holds_bytes();
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
      return sessions_->OnDataEnd(connection.link);
    case FrameReader::Event::kNone:
      break;
  }
  return {};
}

void FeedListener::Refuse(Connection& connection, const Status& reason) {
  LogWarning("feed: refused a connection from {}: {}", connection.peer, reason.ToString());
  sessions_->Refuse(connection.link, reason);
}

void FeedListener::Drop(std::uint64_t connection_id, const Status& reason) {
  const auto it = connections_.find(connection_id);
  Connection& connection = *it->second;
  sessions_->Gone(connection.link,
                  fmt::format("its feeder ({}) is gone: {}", connection.peer, reason.ToString()));
  holding_.erase(connection_id);
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
  bool moved = false;
  do {
    if (connection.outbox.empty()) {
      for (OutFrame& frame : sessions_->TakePosted(connection.link)) {
        connection.outbox.Add(std::move(frame));
      }
    }
    const Result<Outbox::Flushed> result = connection.outbox.Flush(*connection.stream);
    if (!result.ok()) {
      Drop(connection.link.id, result.status());
      return;
    }
    flushed = *result;
    moved = moved || flushed.moved;
    after = sessions_->Sent(connection.link, flushed.result_bytes);
  } while (after.more && connection.outbox.empty());
  if (after.last_word && connection.outbox.empty() &&
      !std::exchange(connection.said_goodbye, true)) {
    ::shutdown(connection.stream->fd(), SHUT_WR);
  }
  if (!flushed.blocked) {
    connection.stuck_since.reset();
  } else if (moved || !connection.stuck_since) {
    connection.stuck_since = Clock::Steady().Now();
    connection.told_stuck = false;
  }
  Watch(connection, flushed.blocked ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void FeedListener::Watch(Connection& connection, std::uint32_t events) {
  if (std::exchange(connection.watched, events) == events) return;
  epoll_event event{.events = events, .data = {.u64 = connection.link.id}};
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.stream->fd(), &event);
}

}  // namespace tfos::feed
