#ifndef TFOS_COLLECTIVE_TEST_MEMBERS_H_
#define TFOS_COLLECTIVE_TEST_MEMBERS_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <barrier>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "collective/group.h"

namespace tfos::collective {

/// How members of a test exchange tensors.
enum class Transport {
  kTcp,
  kSharedMemory,
  kTwoHosts,  ///< Every other member is on another host, for all they know.
  kTls,
  kUcxTcp,           ///< UCX over TCP.
  kUcxSharedMemory,  ///< UCX over memory that it shares.
};

inline const char* NameOf(Transport transport) {
  switch (transport) {
    case Transport::kTcp:
      return "Tcp";
    case Transport::kSharedMemory:
      return "SharedMemory";
    case Transport::kTwoHosts:
      return "TwoHosts";
    case Transport::kTls:
      return "Tls";
    case Transport::kUcxTcp:
      return "UcxTcp";
    case Transport::kUcxSharedMemory:
      return "UcxSharedMemory";
  }
  return "";
}

inline bool UsesUcx(Transport transport) {
  return transport == Transport::kUcxTcp || transport == Transport::kUcxSharedMemory;
}

/// Those that this build has.
inline std::vector<Transport> Transports() {
  std::vector<Transport> all = {Transport::kTcp, Transport::kSharedMemory, Transport::kTwoHosts,
                                Transport::kTls};
#ifdef TFOS_HAS_UCX
  all.insert(all.end(), {Transport::kUcxTcp, Transport::kUcxSharedMemory});
#endif
  return all;
}

/// UCX takes its shared memory for members that may die only if it is told to.
inline void LetUcxShareMemory() { ::setenv("UCX_POSIX_ERROR_HANDLING", "y", 1); }

/// Options for `count` members on this host, with ports that are bound and not listening, as an
/// agent holds them.
inline std::vector<GroupOptions> MakeMembers(std::uint32_t count,
                                             Transport transport = Transport::kSharedMemory) {
  if (transport == Transport::kUcxSharedMemory) LetUcxShareMemory();
  auto key = Secret::Generate();
  EXPECT_TRUE(key.ok());
  std::vector<Member> members;
  std::vector<UniqueFd> listeners;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    members.push_back({.name = fmt::format("worker:{} on host h{}", rank, rank),
                       .address = "127.0.0.1",
                       .port = ntohs(address.sin_port)});
    listeners.push_back(std::move(fd));
  }
  std::vector<GroupOptions> options;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    GroupOptions one;
    one.members = members;
    one.rank = rank;
    one.key = *key;
    one.listener = std::move(listeners[rank]);
    one.connect_timeout = std::chrono::seconds(60);
    one.shared_memory = transport == Transport::kSharedMemory || transport == Transport::kTwoHosts;
    one.encryption =
        transport == Transport::kTls ? net::Encryption::kAlways : net::Encryption::kBetweenHosts;
    one.packaged_ucx = TFOS_PACKAGED_UCX;
    if (UsesUcx(transport)) {
      one.rdma = Rdma::kRequired;
      one.ucx_transports = transport == Transport::kUcxTcp ? "tcp" : "posix";
    }
    if (transport == Transport::kTwoHosts) one.host = rank % 2 == 0 ? "even" : "odd";
    options.push_back(std::move(one));
  }
  return options;
}

/// Runs `program` for each member in a thread of its own once all have joined, and waits for all.
/// Nobody is gone before all are done: that would end the group for the others.
inline void RunMembers(std::vector<GroupOptions> options,
                       const std::function<void(Group&)>& program) {
  std::vector<std::thread> threads;
  std::barrier all(static_cast<std::ptrdiff_t>(options.size()));
  for (GroupOptions& one : options) {
    threads.emplace_back([&one, &program, &all] {
      const auto group = Group::Join(std::move(one));
      all.arrive_and_wait();
      EXPECT_TRUE(group.ok()) << group.status().ToString();
      if (group.ok()) program(**group);
      all.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_TEST_MEMBERS_H_
