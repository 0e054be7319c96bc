#include "collective/meeting.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "collective/algorithms.h"
#include "net/handshake/acceptor.h"
#include "net/handshake/handshake.h"
#include "net/listen.h"
#include "net/poll.h"
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

/// What members have in common that can share memory: the running kernel, the network namespace,
/// outside of which a socket without a file can't be reached, and the user. Nothing if that can't
/// be told.
Word HostWord(const GroupOptions& options) {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat network {};
  if (!options.shared_memory || boot.empty() || ::stat("/proc/self/ns/net", &network) != 0) {
    return kNothing;
  }
  const Digest digest =
      HmacSha256(options.key, fmt::format("tfos host {} {} {} {} {}", boot, network.st_dev,
                                          network.st_ino, ::geteuid(), options.host));
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
  std::unique_ptr<net::Acceptor> acceptor;
  Word name = kNothing;  ///< Of the socket; nothing if there is none.
  std::unique_ptr<HostMemory> memory;
};

Result<Offer> MakeOffer(const Mesh& mesh, std::size_t members) {
  Offer offer;
  TFOS_ASSIGN_OR_RETURN(offer.memory, HostMemory::Create(members));
  TFOS_ASSIGN_OR_RETURN(const Secret random, Secret::Generate());
  std::memcpy(offer.name.data(), random.bytes().data(), offer.name.size());
  TFOS_ASSIGN_OR_RETURN(
      offer.acceptor,
      net::Acceptor::Create(
          {.party = mesh.party(),
           .what = fmt::format("the shared memory of {}", mesh.options().members[mesh.rank()].name),
           .accepts = [&mesh](const net::Numbers& given) { return mesh.CheckNumbers(given); },
           .most_strangers = net::Acceptor::kMostStrangers + members}));
  TFOS_ASSIGN_OR_RETURN(UniqueFd listener, net::ListenUnix(SocketName(offer.name)));
  TFOS_RETURN_IF_ERROR(offer.acceptor->Listen(std::move(listener)));
  return offer;
}

/// Hands the memory to one that has connected.
Status HandOver(const Offer& offer, const net::Guest& guest) {
  constexpr std::byte kHere{1};
  TFOS_ASSIGN_OR_RETURN(
      const net::Transfer sent,
      net::Send(guest.connection.stream->fd(), std::span(&kHere, 1), {}, offer.memory->fd()));
  if (sent.bytes == 1) return {};
  return {ErrorKind::kRetryLater, "a new socket takes nothing"};
}

/// Hands the memory to as many as have connected. A member that does not get it says so.
Status HandOverToAll(const Offer& offer, std::size_t count, const Wait& wait) {
  std::set<std::uint32_t> served;
  while (served.size() < count) {
    TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(offer.acceptor->fd(), POLLIN, wait));
    if (ready == 0) return {ErrorKind::kRetryLater, "not all have connected within the deadline"};
    for (const net::Guest& guest : offer.acceptor->Progress()) {
      if (const Status given = HandOver(offer, guest); !given.ok()) {
        LogWarning("{} gets no shared memory: {}", guest.peer, given.ToString());
      }
      served.insert(guest.connection.numbers.connecting);
    }
  }
  return {};
}

Result<std::unique_ptr<HostMemory>> TakeOver(const Mesh& mesh, UniqueFd socket, std::uint32_t first,
                                             std::size_t members, std::size_t rank,
                                             const Wait& wait) {
  TFOS_ASSIGN_OR_RETURN(
      const net::Connection connection,
      net::ShakeHands(std::move(socket), mesh.party(), mesh.NumbersTo(first), wait));
  const int fd = connection.stream->fd();
  UniqueFd memory;
  std::byte here{};
  while (!memory.valid()) {
    TFOS_ASSIGN_OR_RETURN(const short ready, net::Poll(fd, POLLIN, wait));
    if (ready == 0) return Status(ErrorKind::kRetryLater, "no memory within the deadline");
    TFOS_ASSIGN_OR_RETURN(const net::Transfer got, net::Receive(fd, std::span(&here, 1), &memory));
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
      if (auto made = MakeOffer(mesh, near.size()); made.ok()) {
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
      if (Status given = HandOverToAll(offer, static_cast<std::size_t>(count), wait); !given.ok()) {
        LogWarning("A member on this host may share no memory: {}", given.ToString());
      }
      hosts.memory = std::move(offer.memory);
      hosts.memory->Seal();
    } else if (socket) {
      auto memory = TakeOver(mesh, std::move(*socket), near[0], near.size(), rank_near, wait);
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
