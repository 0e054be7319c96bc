#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/time/seconds_text.h"
#include "collective/mesh/mesh.h"
#include "collective/mesh/stream_choice.h"
#include "net/handshake.h"
#include "net/listen.h"
#include "net/socket.h"

// How the members of a group connect to each other: each to those before it, and accepts the
// others.

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

Wait Shorter(const Wait& wait, Clock::Duration bound) {
  return {.deadline = wait.deadline.Min(Deadline::After(bound)), .check = wait.check};
}

}  // namespace

Result<std::unique_ptr<Mesh>> Mesh::Connect(GroupOptions options) {
  std::unique_ptr<Mesh> mesh(new Mesh(std::move(options)));
  const GroupOptions& o = mesh->options_;
  if (o.rank >= o.members.size()) {
    return Status(
        ErrorKind::kBadInput,
        fmt::format("rank {} does not exist: the group has {} members", o.rank, o.members.size()));
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
            fmt::format("tensors must go over UCX (rdma=\"required\"), and {} can't: its log "
                        "says why",
                        without)};
  }
  LogWarning("Tensors go over TCP, not UCX, to {}: the log there says why", without);
  return {};
}

}  // namespace tfos::collective
