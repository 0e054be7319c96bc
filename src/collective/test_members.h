#ifndef TFOS_COLLECTIVE_TEST_MEMBERS_H_
#define TFOS_COLLECTIVE_TEST_MEMBERS_H_

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "collective/group.h"

namespace tfos::collective {

/// Options for `count` members on this host, with ports that are bound and not listening, as an
/// agent holds them.
inline std::vector<GroupOptions> MakeMembers(std::uint32_t count) {
  auto token = Secret::Generate();
  EXPECT_TRUE(token.ok());
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
    one.token = *token;
    one.listener = std::move(listeners[rank]);
    one.connect_timeout = std::chrono::seconds(60);
    options.push_back(std::move(one));
  }
  return options;
}

/// Runs `program` for each member in a thread of its own, and waits for all.
inline void RunMembers(std::vector<GroupOptions> options,
                       const std::function<void(Group&)>& program) {
  std::vector<std::thread> threads;
  for (GroupOptions& one : options) {
    threads.emplace_back([&one, &program] {
      auto group = Group::Join(std::move(one));
      ASSERT_TRUE(group.ok()) << group.status().ToString();
      program(**group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_TEST_MEMBERS_H_
