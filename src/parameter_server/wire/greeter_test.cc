#include "parameter_server/wire/greeter.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>
#include <string_view>
#include <utility>

#include "net/handshake.h"
#include "parameter_server/wire/protocol.h"

namespace {

/// While it is set, the first memory that a greeter's thread asks for is not there.
std::atomic<bool> no_memory = false;

bool IsRefused() {
  thread_local bool refused = false;
  if (!no_memory || refused) return false;
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  refused = std::string_view(name.data()) == "tfos-greeter";
  return refused;
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* const memory = IsRefused() ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace tfos::parameter_server {
namespace {

constexpr int kLongMilliseconds = 60'000;

struct Pair {
  Pair() {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    ours.Reset(ends[0]);
    theirs.Reset(ends[1]);
  }
  UniqueFd ours;
  UniqueFd theirs;
};

bool IsSoonReady(const Greeter& greeter) {
  pollfd ready{.fd = greeter.ready_fd(), .events = POLLIN, .revents = 0};
  return ::poll(&ready, 1, kLongMilliseconds) == 1;
}

TEST(GreeterTest, AGreetingThatFailsForWantOfMemoryMakesRoomForOthers) {
  const Secret token = *Secret::Generate();
  auto greeter = Greeter::Create(token, 3, /*encrypt=*/false);
  ASSERT_TRUE(greeter.ok()) << greeter.status().ToString();
  no_memory = true;
  for (int stranger = 0; stranger < 100; ++stranger) {
    Pair pair;
    ASSERT_FALSE((*greeter)->busy()) << stranger;
    ASSERT_TRUE((*greeter)->Greet(std::move(pair.theirs), /*local=*/true).ok());
    ASSERT_TRUE(IsSoonReady(**greeter)) << stranger;
    EXPECT_TRUE((*greeter)->Take().empty());
  }
  no_memory = false;
  Pair pair;
  ASSERT_TRUE((*greeter)->Greet(std::move(pair.theirs), /*local=*/true).ok());
  const auto server =
      net::Introduce(pair.ours.get(), kProtocol, token, {.connecting = 1, .accepting = 3}, {});
  EXPECT_TRUE(server.ok()) << server.status().ToString();
  ASSERT_TRUE(IsSoonReady(**greeter));
  EXPECT_EQ((*greeter)->Take().size(), 1U);
}

}  // namespace
}  // namespace tfos::parameter_server
