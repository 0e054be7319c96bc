#include "collective/mesh/mesh.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/time/seconds_text.h"
#include "collective/mesh/stream_choice.h"
#include "net/handshake.h"
#include "net/listen.h"
#include "net/socket.h"

namespace tfos::collective {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// For a stranger that connects and says nothing.
constexpr seconds kHandshakePatience{3};
/// Between attempts to reach a member that does not listen yet.
constexpr milliseconds kRetryInterval{50};
/// How often a member may close the connection during the handshake before that counts. It gives up
/// on a member that gets no processor for kHandshakePatience, which may be this one, and can't say
/// so; a member with another token closes every time.
constexpr int kMostRefusals = 10;
/// A member that is gone may have done all of an operation that others are about to finish.
constexpr seconds kPatienceWithOthers{1};
/// A member that leaves waits so long for its last frame to be on its way.
constexpr seconds kFlushPatience{5};
/// How long UCX is looked at before it is slept for: what comes within that takes no waking up.
constexpr std::chrono::microseconds kLookAtUcx{20};

Wait Shorter(const Wait& wait, Clock::Duration bound) {
  return {.deadline = wait.deadline.Min(Deadline::After(bound)), .check = wait.check};
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::Connect(GroupOptions options) {
  std::unique_ptr<Mesh> mesh(new Mesh(std::move(options)));
  const GroupOptions& o = mesh->options_;
  if (o.rank >= o.members.size()) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("there is no member {} of {}", o.rank, o.members.size()));
  }
  mesh->links_.resize(o.members.size());
  mesh->begun_.resize(o.members.size());
  // The caller has bound it, but may not listen on it yet.
  TFOS_RETURN_IF_ERROR(net::ListenOn(o.listener.get(), "for the other members"));
  if (o.encrypt && o.rdma != Rdma::kOff) {
    return Status(ErrorKind::kBadInput,
                  "tensors can't be encrypted over UCX: set spark.tfos.tensors.encrypt or "
                  "spark.tfos.rdma, not both");
  }
  TFOS_ASSIGN_OR_RETURN(mesh->ucx_, StartUcx(o));
  const Wait wait{.deadline = Deadline::After(o.connect_timeout), .check = o.check};
  for (std::uint32_t member = 0; member < o.rank; ++member) {
    TFOS_RETURN_IF_ERROR(mesh->ConnectTo(member, wait));
  }
  TFOS_RETURN_IF_ERROR(mesh->AcceptAll(wait));
  // Others may hold the socket too, but nobody is to come any more.
  ::shutdown(mesh->options_.listener.get(), SHUT_RDWR);
  mesh->options_.listener.Reset();
  TFOS_RETURN_IF_ERROR(mesh->CheckStreams());
  return mesh;
}

Status Mesh::ConnectTo(std::uint32_t member, const Wait& wait) {
  const Member& other = options_.members[member];
  int refusals = 0;
  while (true) {
    Status status;
    auto socket = net::ConnectTcp(other.address, other.port, wait);
    if (socket.ok()) {
      const auto peer = net::Introduce(socket->get(), protocol(), options_.token,
                                       {.connecting = options_.rank, .accepting = member}, wait);
      status = peer.status();
      if (peer.ok()) {
        auto stream =
            ChooseStream(std::move(socket).value(), true, peer->key, options_, ucx_.get(), wait);
        status = stream.status();
        if (stream.ok()) {
          links_[member] = std::make_unique<Link>(std::move(stream).value(), other.name);
          return {};
        }
      }
    } else {
      status = socket.status();
    }
    // It holds its port from the start, and listens once its program has come so far; names and
    // routes may take a while, too.
    if (socket.ok()) ++refusals;
    const bool for_good =
        socket.ok() && (status.kind() != ErrorKind::kReconnect || refusals == kMostRefusals);
    if (for_good || wait.deadline.passed()) {
      return status.Annotate(fmt::format("connect to {}", other.name));
    }
    if (wait.check) TFOS_RETURN_IF_ERROR(wait.check());
    ::poll(nullptr, 0, static_cast<int>(kRetryInterval.count()));
  }
}

Status Mesh::AcceptAll(const Wait& wait) {
  std::uint32_t missing = size() - options_.rank - 1;
  while (missing > 0) {
    UniqueFd socket(
        ::accept4(options_.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid()) {
      if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR && errno != ECONNABORTED) {
        return Status::FromErrno(errno, "accept another member");
      }
      TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(options_.listener.get(), POLLIN, wait));
      if (ready == 0) return Missing();
      continue;
    }
    net::TuneTcp(socket.get());
    const Wait patience = Shorter(wait, kHandshakePatience);
    const auto peer = net::Recognize(
        socket.get(), protocol(), options_.token,
        [this](net::Numbers given) { return CheckNumbers(given); }, patience);
    Result<std::unique_ptr<net::Stream>> stream = peer.status();
    if (peer.ok()) {
      stream = ChooseStream(std::move(socket), false, peer->key, options_, ucx_.get(), patience);
    }
    if (wait.check) TFOS_RETURN_IF_ERROR(wait.check());
    if (!stream.ok()) {
      LogWarning("A connection to the port of tensors was refused: {}", stream.status().ToString());
      continue;
    }
    const std::uint32_t member = peer->numbers.connecting;
    if (links_[member] == nullptr) --missing;
    links_[member] =
        std::make_unique<Link>(std::move(stream).value(), options_.members[member].name);
  }
  return {};
}

Status Mesh::CheckNumbers(net::Numbers numbers) const {
  const std::uint32_t rank = options_.rank;
  if (numbers.accepting == rank && numbers.connecting > rank && numbers.connecting < size()) {
    return {};
  }
  return {ErrorKind::kBadInput,
          fmt::format("member {} connected to what it took for member {}, and this is {}",
                      numbers.connecting, numbers.accepting, rank)};
}

Status Mesh::Missing() const {
  std::string names;
  for (std::uint32_t member = options_.rank + 1; member < size(); ++member) {
    if (links_[member] == nullptr)
      names += (names.empty() ? "" : ", ") + options_.members[member].name;
  }
  return {ErrorKind::kRetryLater,
          fmt::format("{} did not come for {}: every member must use the group", names,
                      SecondsText(options_.connect_timeout))};
}

std::string Mesh::DescribeStreams() const {
  std::vector<std::string> kinds;
  for (const auto& link : links_) {
    if (link == nullptr) continue;
    std::string kind = link->DescribeStream();
    if (std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(std::move(kind));
  }
  return fmt::format("{}", fmt::join(kinds, ", "));
}

Status Mesh::CheckStreams() const {
  if (ucx_ == nullptr) return {};
  std::string without;
  for (std::uint32_t member = 0; member < size(); ++member) {
    if (links_[member] == nullptr || links_[member]->beside_socket()) continue;
    without += (without.empty() ? "" : ", ") + options_.members[member].name;
  }
  if (without.empty()) return {};
  if (options_.rdma == Rdma::kRequired) {
    return {ErrorKind::kUnsupported,
            fmt::format("tensors have to go over UCX (rdma=\"required\"), and {} can't: its log "
                        "says why",
                        without)};
  }
  LogWarning("Tensors go over TCP, not UCX, to {}: the log there says why", without);
  return {};
}

void Mesh::Begin(const Operation& operation) {
  operation_ = operation;
  waited_ = {};
  begun_.assign(size(), false);
}

Link& Mesh::LinkTo(std::uint32_t member) {
  Link& link = *links_[member];
  if (!begun_[member]) link.Begin(operation_);
  begun_[member] = true;
  return link;
}

Status Mesh::Move(const Step& step) {
  TFOS_RETURN_IF_ERROR(failure_);
  Link* const to = step.to ? &LinkTo(*step.to) : nullptr;
  Link* const from = step.from ? &LinkTo(*step.from) : nullptr;
  if (to != nullptr) to->Send(step.data);
  if (from != nullptr) from->Receive(step.room, step.add);
  Status moved = MoveAll(to, from);
  return moved.ok() ? moved : Fail(std::move(moved));
}

Status Mesh::MoveAll(Link* to, Link* from) {
  const auto moved = [to, from] {
    return (to != nullptr ? to->moved() : 0) + (from != nullptr ? from->moved() : 0);
  };
  std::uint64_t moved_before = moved();
  Clock::TimePoint since = Clock::Steady().Now();
  while (true) {
    if (to != nullptr && to->sending()) TFOS_RETURN_IF_ERROR(to->Push());
    if (from != nullptr && from->receiving()) TFOS_RETURN_IF_ERROR(from->Pull());
    const bool sends = to != nullptr && to->sending();
    const bool receives = from != nullptr && from->receiving();
    if (!sends && !receives) return {};
    if (receives && from->left()) {
      from->Announce();
      // A few bytes to somebody who waits for nothing else.
      if (from != to) TFOS_RETURN_IF_ERROR(from->Push());
    }
    const Clock::TimePoint begin = Clock::Steady().Now();
    if (std::exchange(moved_before, moved()) != moved_before) since = begin;
    const bool begins = receives && !from->agreed();
    TFOS_RETURN_IF_ERROR(Await(sends ? to : nullptr, receives ? from : nullptr));
    if (begins) waited_ += Clock::Steady().Now() - begin;
    TFOS_RETURN_IF_ERROR(CheckWait(sends ? to : nullptr, receives ? from : nullptr, since));
  }
}

bool Mesh::ProgressUcx() {
  const Clock::TimePoint begin = Clock::Steady().Now();
  do {
    if (ucx_->Progress()) return true;
  } while (Clock::Steady().Now() - begin < kLookAtUcx);
  return !ucx_->Arm();
}

Status Mesh::Await(Link* to, Link* from) {
  // The sockets, and UCX for both.
  pollfd entries[3];
  Link* links[3] = {};
  nfds_t count = 0;
  bool beside = false;
  const auto add = [&](Link* link, short events) {
    if (link == nullptr) return;
    if (link->beside_socket()) {
      beside = true;
      events = POLLIN | POLLRDHUP;  // Its end, and its last words.
    }
    for (nfds_t i = 0; i < count; ++i) {
      if (links[i] == link) {
        entries[i].events = static_cast<short>(entries[i].events | events);
        return;
      }
    }
    links[count] = link;
    entries[count++] = {.fd = link->fd(), .events = events, .revents = 0};
  };
  add(to, POLLOUT);
  add(from, POLLIN);
  if (beside) {
    if (ProgressUcx()) return {};
    entries[count++] = {.fd = ucx_->fd(), .events = POLLIN, .revents = 0};
  }
  const int ready = ::poll(entries, count, static_cast<int>(kCheckInterval.count()));
  if (ready < 0 && errno != EINTR) return Status::FromErrno(errno, "wait for other members");
  for (nfds_t i = 0; ready > 0 && i < count; ++i) {
    if (entries[i].revents == 0 || links[i] == nullptr || !links[i]->beside_socket()) continue;
    // What came before its end comes first.
    return ucx_->Progress() ? Status() : links[i]->OnHangUp();
  }
  return {};
}

Status Mesh::CheckWait(Link* to, Link* from, Clock::TimePoint& since) {
  const Clock::Duration waited = Clock::Steady().Now() - since;
  if (waited < kCheckInterval) return {};
  if (options_.check) TFOS_RETURN_IF_ERROR(options_.check());
  TFOS_RETURN_IF_ERROR(CheckPeers(waited));
  if (waited < options_.stall_after) return {};
  OnStall(from != nullptr ? from : to, waited);
  since = Clock::Steady().Now();
  return {};
}

Status Mesh::CheckPeers(Clock::Duration waited) {
  if (told_left_ || waited < kPatienceWithOthers) return {};
  std::vector<pollfd> entries;
  for (const auto& link : links_) {
    // Poll passes over negative ones.
    entries.push_back({.fd = link == nullptr ? -1 : link->fd(), .events = POLLRDHUP, .revents = 0});
  }
  if (::poll(entries.data(), entries.size(), 0) <= 0) return {};
  for (std::size_t member = 0; member < entries.size(); ++member) {
    if (entries[member].revents != 0) return links_[member]->OnHangUp();
  }
  return {};
}

Status Mesh::CheckAlive(std::uint32_t member, Clock::Duration waited) {
  TFOS_RETURN_IF_ERROR(failure_);
  if (options_.check) TFOS_RETURN_IF_ERROR(options_.check());
  pollfd entry{.fd = links_[member]->fd(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&entry, 1, 0) > 0 ? links_[member]->OnHangUp() : CheckPeers(waited);
}

Status Mesh::Announce(std::uint32_t member) {
  TFOS_RETURN_IF_ERROR(failure_);
  Link& link = LinkTo(member);
  link.Announce();
  // A few bytes to somebody who waits for nothing else.
  return link.Push();
}

void Mesh::OnStall(const Link* waited_for, Clock::Duration waited) {
  const auto it = std::ranges::find(links_, waited_for, &std::unique_ptr<Link>::get);
  auto culprit = static_cast<std::uint32_t>(it - links_.begin());
  // A member that waits for another one is not to blame.
  if (const auto other = waited_for->waits_for(); other && *other < size()) culprit = *other;
  TellOfStall(culprit, waited);
  if (on_stall_) on_stall_(culprit);
}

void Mesh::TellOfStall(std::uint32_t culprit, Clock::Duration waited) {
  LogWarning("{} has waited {:.0f} s in {} for {}, which is not that far",
             options_.members[options_.rank].name, std::chrono::duration<double>(waited).count(),
             operation_.Describe(), options_.members[culprit].name);
  for (std::uint32_t member = 0; member < size(); ++member) {
    if (links_[member] == nullptr || member == culprit) continue;
    Link& link = LinkTo(member);
    link.TellWaiting(culprit);
    static_cast<void>(link.Push().ok());  // If it can't be told, it knows more.
  }
}

Status Mesh::TellLeft() {
  TFOS_RETURN_IF_ERROR(failure_);
  told_left_ = true;
  for (const auto& link : links_) {
    if (link == nullptr) continue;
    link->TellLeft();
    if (Status sent = MoveAll(link.get(), nullptr); !sent.ok()) return Fail(std::move(sent));
  }
  return {};
}

Result<std::optional<Operation>> Mesh::LookFor(std::uint64_t number, const Finder& find) {
  for (const auto& link : links_) {
    if (link == nullptr) continue;
    TFOS_ASSIGN_OR_RETURN(auto next, link->Peek(number));
    // Somebody may be further already.
    if (next && next->number == number) return next;
  }
  // After those who say that they have left: they have begun all they ever will.
  return find();
}

Result<std::optional<Operation>> Mesh::AwaitOther(std::uint64_t number, const Finder& find) {
  TFOS_RETURN_IF_ERROR(failure_);
  while (true) {
    auto next = LookFor(number, find);
    if (!next.ok()) return Fail(next.status());
    if (*next) return next;
    std::vector<pollfd> entries;
    bool all_left = true;
    for (const auto& link : links_) {
      if (link == nullptr) continue;
      all_left = all_left && link->left();
      if (!link->ended()) entries.push_back({.fd = link->fd(), .events = POLLIN, .revents = 0});
    }
    if (all_left) return next;
    if (ucx_ != nullptr) {
      if (ProgressUcx()) continue;
      entries.push_back({.fd = ucx_->fd(), .events = POLLIN, .revents = 0});
    }
    if (::poll(entries.data(), entries.size(), static_cast<int>(kCheckInterval.count())) < 0 &&
        errno != EINTR) {
      return Fail(Status::FromErrno(errno, "wait for other members"));
    }
    if (options_.check) {
      if (Status checked = options_.check(); !checked.ok()) return Fail(std::move(checked));
    }
  }
}

void Mesh::Disconnect() {
  if (failure_.ok()) failure_ = {ErrorKind::kReconnect, "this member has left its group"};
  if (ucx_ != nullptr) ucx_->Flush(kFlushPatience);
  for (auto& link : links_) link.reset();
}

Status Mesh::Fail(Status why) {
  if (!failure_.ok()) return failure_;
  failure_ = why;
  const std::string text = why.ToString();
  for (const auto& link : links_) {
    if (link != nullptr) link->Abort(text);
  }
  // Once all have been told.
  for (const auto& link : links_) {
    if (link != nullptr) link->Close();
  }
  return why;
}

}  // namespace tfos::collective
