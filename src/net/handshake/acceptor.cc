#include "net/handshake/acceptor.h"

#include <netdb.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/text/endpoint.h"
#include "base/time/seconds_text.h"
#include "net/socket.h"

namespace tfos::net {
namespace {

/// After running out of descriptors: the pause before the next accept.
constexpr std::chrono::milliseconds kAcceptPause{100};
/// Connections taken in one call, so that a flood of them leaves its user time for members.
constexpr int kAcceptsPerTurn = 64;

/// As many strangers from one place are a crowd: more than a host mostly has of those who come at
/// the same moment. Fewer are soon let in or gone.
constexpr std::size_t kCrowd = 64;

/// Ids of what else epoll watches: the timer, and from there on the listeners. Strangers follow.
constexpr std::uint64_t kTimerId = 0;
constexpr std::uint64_t kFirstListenerId = 1;
constexpr std::uint64_t kFirstStrangerId = 1 << 10;

/// `address` is that of the peer, with no family if it has none any more.
std::string DescribePeer(int fd, sockaddr_storage& address) {
  socklen_t size = sizeof(address);
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return "a closed socket";
  if (address.ss_family == AF_UNIX) {
    ucred peer{};
    size = sizeof(peer);
    if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return "this host";
    return fmt::format("process {} of this host", peer.pid);
  }
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "another host";
  }
  std::string_view name = host.data();
  // An address of IPv4, as a socket for both families has it.
  constexpr std::string_view kMapped = "::ffff:";
  if (name.starts_with(kMapped) && name.find('.') != name.npos) name.remove_prefix(kMapped.size());
  return fmt::format("{} port {}", name, port.data());
}

bool IsUnix(int fd) {
  int domain = 0;
  socklen_t size = sizeof(domain);
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

}  // namespace

std::size_t Acceptor::AsManyAsDescriptorsAllow() {
  constexpr rlim_t kMost = 4096;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMostStrangers;
  return std::clamp<rlim_t>(limit.rlim_cur / 2, 1, kMost);
}

Result<std::unique_ptr<Acceptor>> Acceptor::Create(Options options) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(std::move(options)));
  acceptor->next_id_ = kFirstStrangerId;
  acceptor->epoll_.Reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!acceptor->epoll_.valid()) return Status::FromErrno(errno, "create an epoll set");
  acceptor->timer_.Reset(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!acceptor->timer_.valid()) return Status::FromErrno(errno, "create a timer");
  TFOS_RETURN_IF_ERROR(acceptor->Watch(acceptor->timer_.get(), kTimerId, EPOLLIN, false));
  return acceptor;
}

Status Acceptor::Watch(int fd, std::uint64_t id, std::uint32_t events, bool known) {
  epoll_event event{.events = events, .data = {.u64 = id}};
  if (::epoll_ctl(epoll_.get(), known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0) return {};
  return Status::FromErrno(errno, "watch a socket");
}

Status Acceptor::Listen(UniqueFd listener) {
  TFOS_RETURN_IF_ERROR(ListenAt(listener.get()));
  owned_.push_back(std::move(listener));
  return {};
}

Status Acceptor::ListenAt(int listener) {
  const std::uint64_t id = kFirstListenerId + listeners_.size();
  if (id >= kFirstStrangerId) return {ErrorKind::kBug, "an acceptor with too many listeners"};
  TFOS_RETURN_IF_ERROR(Watch(listener, id, EPOLLIN, false));
  listeners_.push_back(listener);
  return {};
}

std::vector<Guest> Acceptor::Progress() {
  std::vector<Guest> guests;
  std::array<epoll_event, 64> events;
  const int count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
  for (int i = 0; i < count; ++i) {
    const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
    if (id == kTimerId) continue;  // What is due comes below.
    if (id < kFirstStrangerId) {
      Accept(listeners_[id - kFirstListenerId], guests);
    } else if (const auto stranger = strangers_.find(id); stranger != strangers_.end()) {
      Continue(stranger, guests);
    }
  }
  DropLate();
  SetTimer();
  return guests;
}

void Acceptor::Accept(int listener, std::vector<Guest>& guests) {
  const bool tcp = !IsUnix(listener);
  for (int i = 0; i < kAcceptsPerTurn && !accept_again_; ++i) {
    UniqueFd fd(::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!fd.valid()) {
      const int error = errno;
      if (error == EINTR || error == ECONNABORTED) continue;
      if (error == EAGAIN || error == EWOULDBLOCK) return;
      if ((error == EMFILE || error == ENFILE) && BreakUpCrowd()) continue;
      Pause(std::strerror(error));
      return;
    }
    if (tcp) TuneTcp(fd.get());
    sockaddr_storage address{};
    std::string peer = DescribePeer(fd.get(), address);
    const Origin origin = Origin::Of(address);
    const std::uint64_t id = next_id_++;
    const auto stranger =
        strangers_
            .emplace(id,
                     Stranger{.handshake = Handshake::Accepting(std::move(fd), options_.party,
                                                                options_.accepts, options_.others),
                              .peer = std::move(peer),
                              .origin = origin,
                              .until = Clock::Steady().Now() + options_.patience})
            .first;
    crowd_.Add(origin, id);
    // Before its own handshake: that needs no room any more if it ends at once.
    if (strangers_.size() > options_.most_strangers) {
      Refuse(strangers_.find(crowd_.FirstToGo()),
             fmt::format("too many connections are waiting to authenticate ({}); it is the oldest "
                         "from the address that has the most of them",
                         options_.most_strangers));
    }
    Continue(stranger, guests);
  }
}

void Acceptor::Continue(Strangers::iterator stranger, std::vector<Guest>& guests) {
  auto& [id, who] = *stranger;
  const Result<Handshake::State> state = who.handshake.Continue();
  if (!state.ok()) {
    Refuse(stranger, state.status().ToString());
    return;
  }
  if (*state == Handshake::State::kReading || *state == Handshake::State::kWriting) {
    const std::uint32_t events = *state == Handshake::State::kReading ? EPOLLIN : EPOLLOUT;
    if (events == who.watched) return;
    const Status watched = Watch(who.handshake.fd(), id, events, who.watched != 0);
    who.watched = events;
    if (!watched.ok()) Refuse(stranger, watched.ToString());
    return;
  }
  // Its new owner watches the socket, not this.
  if (who.watched != 0) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, who.handshake.fd(), nullptr);
  }
  Guest& guest = guests.emplace_back();
  guest.peer = std::move(who.peer);
  if (*state == Handshake::State::kDone) {
    guest.connection = who.handshake.Take();
  } else {
    const std::span<const std::byte> received = who.handshake.received();
    guest.received.assign(reinterpret_cast<const char*>(received.data()), received.size());
    guest.other = who.handshake.TakeSocket();
  }
  Remove(stranger);
}

void Acceptor::Refuse(Strangers::iterator stranger, std::string_view why) {
  log_.Write(fmt::format("{}: {} was refused: {}", options_.what, stranger->second.peer, why));
  ++refused_;
  Remove(stranger);
}

void Acceptor::Remove(Strangers::iterator stranger) {
  crowd_.Remove(stranger->second.origin, stranger->first);
  strangers_.erase(stranger);  // Its descriptor leaves the epoll set as it closes.
}

/// Drops one of a crowd, if there is one, so that its descriptor is free. The next connection may
/// be from elsewhere.
bool Acceptor::BreakUpCrowd() {
  if (crowd_.of_busiest() < kCrowd) return false;
  Refuse(strangers_.find(crowd_.FirstToGo()),
         "no descriptor was left for the next connection, and it is the oldest from the address "
         "that has the most connections waiting to authenticate");
  return true;
}

void Acceptor::DropLate() {
  const Clock::TimePoint now = Clock::Steady().Now();
  if (accept_again_ && now >= *accept_again_) {
    accept_again_.reset();
    ListenFor(EPOLLIN);
  }
  while (!strangers_.empty() && now >= strangers_.begin()->second.until) {
    Refuse(strangers_.begin(),
           fmt::format("it did not authenticate within {}", SecondsText(options_.patience)));
  }
}

void Acceptor::Pause(std::string_view why) {
  log_.Write(fmt::format("{}: can't accept a connection: {}", options_.what, why));
  accept_again_ = Clock::Steady().Now() + kAcceptPause;
  ++pauses_;
  ListenFor(0);
}

void Acceptor::ListenFor(std::uint32_t events) {
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    // Cannot fail for a listener that is watched already.
    static_cast<void>(Watch(listeners_[i], kFirstListenerId + i, events, true).ok());
  }
}

void Acceptor::SetTimer() {
  std::optional<Clock::TimePoint> next = accept_again_;
  if (!strangers_.empty()) {
    const Clock::TimePoint oldest = strangers_.begin()->second.until;
    next = next ? std::min(*next, oldest) : oldest;
  }
  itimerspec when{};
  if (next) {
    // Never 0, which would stop it.
    const auto left = std::max(*next - Clock::Steady().Now(), Clock::Duration(1));
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    when.it_value.tv_sec = seconds.count();
    when.it_value.tv_nsec = std::chrono::nanoseconds(left - seconds).count();
  }
  // Setting it also takes back that it has fired.
  ::timerfd_settime(timer_.get(), 0, &when, nullptr);
}

void Acceptor::Close() {
  for (const int listener : listeners_) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener, nullptr);
  }
  listeners_.clear();
  owned_.clear();
  strangers_.clear();
  crowd_ = {};
  accept_again_.reset();
  SetTimer();
}

}  // namespace tfos::net
