#include "collective/meeting.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "collective/algorithms.h"
#include "net/listen.h"
#include "net/socket.h"

namespace tfos::collective {
namespace {

/// For what members on one host say to each other; on none of it they wait for a program.
constexpr std::chrono::seconds kPatience{20};

/// A word of each member, in the order of the members.
using Word = std::array<std::byte, 16>;
constexpr Word kNothing{};

/// Tells all members this one's `word`.
Result<std::vector<Word>> Exchange(Mesh& mesh, std::uint64_t& next_operation, const Word& word) {
  mesh.Begin({.number = next_operation++,
              .kind = OperationKind::kMeet,
              .elements = sizeof(Word),
              .name = "the hosts of members"});
  std::vector<Word> words(mesh.size());
  words[mesh.rank()] = word;
  std::vector<std::uint32_t> all(mesh.size());
  std::iota(all.begin(), all.end(), 0);
  Team team(mesh, std::move(all), mesh.rank());
  TFOS_RETURN_IF_ERROR(AllGatherByRing(team, std::vector<std::size_t>(words.size(), sizeof(Word)),
                                       std::as_writable_bytes(std::span(words))));
  return words;
}

/// What members have in common that can share memory: the running kernel, and the network
/// namespace, outside of which a socket without a file can't be reached. Nothing if that can't be
/// told.
Word HostWord(const GroupOptions& options) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  if (!options.shared_memory || boot.empty() || ::stat("/proc/self/ns/net", &network) != 0) {
    return kNothing;
  }
  const Digest digest = HmacSha256(
      options.token,
      fmt::format("tfos host {} {} {} {}", boot, network.st_dev, network.st_ino, options.host));
  Word word;
  std::memcpy(word.data(), digest.data(), word.size());
  return word;
}

std::string SocketName(const Word& word) {
  std::string name = "tfos-tensors-";
  for (const std::byte byte : word) name += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return name;
}

/// What the first member on a host has for the others.
struct Offer {
  UniqueFd listener;
  Word name = kNothing;  ///< Of the socket; nothing if there is none.
  std::unique_ptr<HostMemory> memory;
};

Result<Offer> MakeOffer(std::size_t members) {
  Offer offer;
  TFOS_ASSIGN_OR_RETURN(offer.memory, HostMemory::Create(members));
  TFOS_ASSIGN_OR_RETURN(const Secret random, Secret::Generate());
  std::memcpy(offer.name.data(), random.bytes().data(), offer.name.size());
  TFOS_ASSIGN_OR_RETURN(offer.listener, net::ListenUnix(SocketName(offer.name)));
  return offer;
}

/// Hands the memory to one that has connected.
Result<std::uint32_t> HandOver(const Mesh& mesh, const Offer& offer, const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(offer.listener.get(), POLLIN, wait));
  if (ready == 0) return Status(ErrorKind::kRetryLater, "nobody connected within the deadline");
  const UniqueFd socket(
      ::accept4(offer.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.valid()) return Status::FromErrno(errno, "accept a member on this host");
  TFOS_ASSIGN_OR_RETURN(
      const net::Peer peer,
      net::Recognize(
          socket.get(), kTensorProtocol, mesh.options().token,
          [&mesh](net::Numbers given) { return mesh.CheckNumbers(given); }, wait));
  constexpr std::byte kHere{1};
  TFOS_ASSIGN_OR_RETURN(const net::Transfer sent,
                        net::Send(socket.get(), std::span(&kHere, 1), {}, offer.memory->fd()));
  if (sent.bytes != 1) return Status(ErrorKind::kRetryLater, "a new socket takes nothing");
  return peer.numbers.connecting;
}

/// Hands the memory to as many as have connected. A member that does not get it says so.
void HandOverToAll(const Mesh& mesh, const Offer& offer, std::size_t count, const Wait& wait) {
  while (count > 0) {
    const auto member = HandOver(mesh, offer, wait);
    if (member.ok()) {
      --count;
      continue;
    }
    LogWarning("A connection to the socket of shared memory was refused: {}",
               member.status().ToString());
    if (wait.deadline.passed()) return;
  }
}

Result<std::unique_ptr<HostMemory>> TakeOver(const Mesh& mesh, int socket, std::uint32_t first,
                                             std::size_t members, std::size_t rank,
                                             const Wait& wait) {
  TFOS_RETURN_IF_ERROR(net::Introduce(socket, kTensorProtocol, mesh.options().token,
                                      {.connecting = mesh.rank(), .accepting = first}, wait)
                           .status());
  UniqueFd memory;
  std::byte here{};
  while (!memory.valid()) {
    TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(socket, POLLIN, wait));
    if (ready == 0) return Status(ErrorKind::kRetryLater, "no memory within the deadline");
    TFOS_ASSIGN_OR_RETURN(const net::Transfer got,
                          net::Receive(socket, std::span(&here, 1), &memory));
    if (got.ended || (got.bytes == 1 && !memory.valid())) {
      return Status(ErrorKind::kReconnect, "the other end passed no memory");
    }
  }
  return HostMemory::Map(std::move(memory), members, rank);
}

}  // namespace

Result<Hosts> MeetOnHosts(Mesh& mesh, std::uint64_t& next_operation) {
  const auto exchange = [&](const Word& word) { return Exchange(mesh, next_operation, word); };
  const Word yes = [] {
    Word word{};
    word[0] = std::byte{1};
    return word;
  }();
  const std::uint32_t self = mesh.rank();
  Hosts hosts;
  TFOS_ASSIGN_OR_RETURN(const std::vector<Word> words, exchange(HostWord(mesh.options())));

  // Those who may be able to.
  std::map<Word, std::vector<std::uint32_t>> candidates;
  bool any = false;
  for (std::uint32_t member = 0; member < mesh.size(); ++member) {
    if (words[member] == kNothing) continue;
    candidates[words[member]].push_back(member);
    any = any || candidates[words[member]].size() > 1;
  }
  std::vector<std::uint32_t> near = {self};
  if (words[self] != kNothing) near = candidates[words[self]];
  const auto rank_near = static_cast<std::size_t>(std::ranges::find(near, self) - near.begin());

  std::vector<Word> shares(mesh.size());
  if (any) {
    const Wait wait{.deadline = Deadline::After(kPatience), .check = mesh.options().check};
    Offer offer;
    if (near.size() > 1 && rank_near == 0) {
      if (auto made = MakeOffer(near.size()); made.ok()) {
        offer = std::move(made).value();
      } else {
        LogWarning("This host's members share no memory: {}", made.status().ToString());
      }
    }
    TFOS_ASSIGN_OR_RETURN(const std::vector<Word> names, exchange(offer.name));
    std::optional<UniqueFd> socket;
    if (rank_near > 0 && names[near[0]] != kNothing) {
      auto connected = net::ConnectUnix(SocketName(names[near[0]]), wait);
      if (connected.ok()) socket = std::move(connected).value();
    }
    // So that nobody waits for a member that can't connect.
    TFOS_ASSIGN_OR_RETURN(const std::vector<Word> connected, exchange(socket ? yes : kNothing));
    if (offer.memory != nullptr) {
      const auto count = std::ranges::count_if(
          near, [&](std::uint32_t member) { return connected[member] == yes; });
      HandOverToAll(mesh, offer, static_cast<std::size_t>(count), wait);
      hosts.memory = std::move(offer.memory);
      hosts.memory->Seal();
    } else if (socket) {
      auto memory = TakeOver(mesh, socket->get(), near[0], near.size(), rank_near, wait);
      if (memory.ok()) {
        hosts.memory = std::move(memory).value();
      } else {
        LogWarning("Takes no memory from {}: {}", mesh.options().members[near[0]].name,
                   memory.status().ToString());
      }
    }
    TFOS_ASSIGN_OR_RETURN(shares, exchange(hosts.memory != nullptr ? yes : kNothing));
  }

  // All of a machine, or none: members have their numbers in its memory.
  std::vector<bool> placed(mesh.size());
  for (std::uint32_t member = 0; member < mesh.size(); ++member) {
    if (placed[member]) continue;
    std::vector<std::uint32_t> together = {member};
    if (words[member] != kNothing && candidates[words[member]].size() > 1 &&
        std::ranges::all_of(candidates[words[member]],
                            [&](std::uint32_t other) { return shares[other] == yes; })) {
      together = candidates[words[member]];
    }
    for (const std::uint32_t other : together) {
      placed[other] = true;
      if (other == self) hosts.own = hosts.members.size();
    }
    hosts.members.push_back(std::move(together));
  }
  if (hosts.members[hosts.own].size() == 1) hosts.memory.reset();
  return hosts;
}

}  // namespace tfos::collective
