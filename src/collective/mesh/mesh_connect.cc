#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/time/seconds_text.h"
#include "collective/mesh/mesh.h"
#include "collective/mesh/stream_choice.h"
#include "net/handshake/acceptor.h"
#include "net/handshake/handshake.h"
#include "net/handshake/reach.h"
#include "net/listen.h"
#include "net/poll.h"
#include "net/socket.h"

// How the members of a group connect to each other: each to those before it, and accepts the
// others.

namespace tfos::collective {
namespace {

using std::chrono::seconds;

/// For a member that has shaken hands and does not say whether it has UCX.
constexpr seconds kOfferPatience{10};

/// Names of members that are missing in a line of the log.
constexpr std::size_t kMostNames = 10;

/// As `wait`, and after each `period` what `say` makes of the time so far goes to the log.
Wait Telling(const Wait& wait, std::chrono::milliseconds period,
             std::function<std::string(double seconds)> say) {
  const Clock::TimePoint begun = Clock::Steady().Now();
  // Copies of the check share it.
  auto say_at = std::make_shared<Clock::TimePoint>(begun + period);
  return {.deadline = wait.deadline,
          .check = [check = wait.check, period, say = std::move(say), begun,
                    say_at = std::move(say_at)]() -> Status {
            if (const Clock::TimePoint now = Clock::Steady().Now(); now >= *say_at) {
              *say_at = now + period;
              LogWarning("{}", say(std::chrono::duration<double>(now - begun).count()));
            }
            return check ? check() : Status();
          }};
}

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
  if (o.encryption == net::Encryption::kAlways && o.rdma != Rdma::kOff) {
    return Status(ErrorKind::kBadInput,
                  "tensors can't be encrypted over UCX: set spark.tfos.encrypt=true or "
                  "spark.tfos.rdma, not both");
  }
  TFOS_ASSIGN_OR_RETURN(mesh->ucx_, StartUcx(o));
  const Wait wait{.deadline = Deadline::After(o.connect_timeout), .check = o.check};
  for (std::uint32_t member = 0; member < o.rank; ++member) {
    TFOS_RETURN_IF_ERROR(mesh->ConnectTo(member, wait));
  }
  TFOS_RETURN_IF_ERROR(mesh->AcceptAll(wait));
  // Others may hold the socket too, but nobody is to come any more.
  if (!o.keep_listening) ::shutdown(mesh->options_.listener.get(), SHUT_RDWR);
  mesh->options_.listener.Reset();
  TFOS_RETURN_IF_ERROR(mesh->CheckStreams());
  return mesh;
}

net::Party Mesh::party() const {
  return {.protocol = kTensorProtocol, .key = options_.key, .encryption = options_.encryption};
}

net::Numbers Mesh::NumbersTo(std::uint32_t accepting) const {
  return {.connecting = options_.rank, .accepting = accepting, .generation = options_.generation};
}

Status Mesh::ConnectTo(std::uint32_t member, const Wait& wait) {
  const Member& other = options_.members[member];
  Status last;
  const Wait telling = Telling(wait, options_.stall_after, [&](double waited) {
    return fmt::format("{} has waited {:.0f} s for {} to join the group{}{}",
                       options_.members[options_.rank].name, waited, other.name,
                       last.ok() ? "" : ": ", last.ok() ? "" : last.ToString());
  });
  const auto attempt = [&](bool& connected) -> Status {
    TFOS_ASSIGN_OR_RETURN(UniqueFd socket, net::ConnectTcp(other.address, other.port, telling));
    connected = true;
    TFOS_ASSIGN_OR_RETURN(net::Connection connection,
                          net::ShakeHands(std::move(socket), party(), NumbersTo(member), telling));
    return Connected(member, std::move(connection), telling);
  };
  const Status reached =
      net::Reach(telling, [&](bool& connected) { return last = attempt(connected); });
  if (reached.ok()) return reached;
  const std::string what = fmt::format("connect to {}", other.name);
  // The group may have a later generation for this member, too: the coordinator knows.
  if (reached.kind() == ErrorKind::kSuperseded) {
    return Status(ErrorKind::kReconnect, std::string(reached.message())).Annotate(what);
  }
  return reached.Annotate(what);
}

Status Mesh::Connected(std::uint32_t member, net::Connection connection, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(auto stream, ChooseStream(std::move(connection.stream), ucx_.get(), wait));
  if (connection.channel == net::Channel::kTls && stream->beside_socket()) unencrypted_ = true;
  links_[member] = std::make_unique<Link>(std::move(stream), options_.members[member].name);
  return {};
}

Status Mesh::AcceptAll(const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(
      const auto acceptor,
      net::Acceptor::Create(
          {.party = party(),
           .what = fmt::format("the port of tensors of {}", options_.members[options_.rank].name),
           .accepts = [this](const net::Numbers& given) { return CheckNumbers(given); },
           // The node's feed listens in the same process, for as many as descriptors allow.
           .most_strangers = std::max(net::Acceptor::AsManyAsDescriptorsAllow() / 4,
                                      net::Acceptor::kMostStrangers + size())}));
  TFOS_RETURN_IF_ERROR(acceptor->ListenAt(options_.listener.get()));
  const auto complete = [this] {
    return std::ranges::all_of(links_.begin() + options_.rank + 1, links_.end(),
                               [](const auto& link) { return link != nullptr; });
  };
  const Wait telling = Telling(wait, options_.stall_after, [this](double waited) {
    return fmt::format("{} has waited {:.0f} s for {} to join the group: every member must use it",
                       options_.members[options_.rank].name, waited, MissingNames(kMostNames));
  });
  while (!complete()) {
    TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(acceptor->fd(), POLLIN, telling));
    if (ready == 0) return Missing();
    for (net::Guest& guest : acceptor->Progress()) {
      const std::uint32_t member = guest.connection.numbers.connecting;
      // When a member connects once more, its last connection counts.
      const Status taken =
          Connected(member, std::move(guest.connection), Shorter(wait, kOfferPatience));
      if (wait.check) TFOS_RETURN_IF_ERROR(wait.check());
      if (taken.ok()) continue;
      LogWarning("{} could not be connected, and may try again: {}", options_.members[member].name,
                 taken.ToString());
    }
    // Strangers may keep it busy all the time.
    TFOS_RETURN_IF_ERROR(telling.check());
    if (!complete() && wait.deadline.passed()) return Missing();
  }
  return {};
}

Status Mesh::CheckNumbers(const net::Numbers& numbers) const {
  const std::uint32_t rank = options_.rank;
  if (numbers.generation != options_.generation) {
    const bool late = numbers.generation < options_.generation;
    return {late ? ErrorKind::kSuperseded : ErrorKind::kRetryLater,
            fmt::format("member {} is of generation {} of the group, and this is generation {}",
                        numbers.connecting, numbers.generation, options_.generation)};
  }
  if (numbers.accepting == rank && numbers.connecting > rank && numbers.connecting < size()) {
    return {};
  }
  return {ErrorKind::kBadInput,
          fmt::format("member {} connected to what it took for member {}, and this is {}",
                      numbers.connecting, numbers.accepting, rank)};
}

std::string Mesh::MissingNames(std::size_t most) const {
  std::string names;
  std::size_t missing = 0;
  for (std::uint32_t member = options_.rank + 1; member < size(); ++member) {
    if (links_[member] != nullptr || ++missing > most) continue;
    names += (names.empty() ? "" : ", ") + options_.members[member].name;
  }
  return missing > most ? fmt::format("{} and {} more", names, missing - most) : names;
}

Status Mesh::Missing() const {
  return {ErrorKind::kRetryLater,
          fmt::format("{} did not come for {}: every member must use the group",
                      MissingNames(size()), SecondsText(options_.connect_timeout))};
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
  if (unencrypted_) {
    LogWarning(
        "Tensors go over UCX to other hosts, which does not encrypt them: use it on a network that "
        "you trust, or leave spark.tfos.rdma away");
  }
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
