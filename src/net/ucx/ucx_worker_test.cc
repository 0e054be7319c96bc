#include "net/ucx/ucx_worker.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

namespace tfos::net {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// What UCX does to a process unless it is told not to.
TEST(UcxWorkerTest, LeavesTheProcessAsItIs) {
  constexpr int kSignals[] = {SIGHUP,  SIGINT,  SIGILL,  SIGBUS, SIGFPE,
                              SIGSEGV, SIGTERM, SIGABRT, SIGPIPE};
  const auto handlers = [&] {
    std::vector<void*> all;
    for (const int signal : kSignals) {
      struct sigaction action {};
      EXPECT_EQ(::sigaction(signal, nullptr, &action), 0);
      all.push_back(reinterpret_cast<void*>(action.sa_handler));
    }
    return all;
  };
  const auto code = [] {
    std::string bytes;
    for (const char* name : {"mmap", "munmap", "mremap", "brk", "madvise"}) {
      bytes.append(static_cast<const char*>(::dlsym(RTLD_DEFAULT, name)), 16);
    }
    return bytes;
  };
  const auto handlers_before = handlers();
  const std::string code_before = code();
  const auto worker = UcxWorker::Create({.packaged = TFOS_PACKAGED_UCX});
  ASSERT_TRUE(worker.ok()) << worker.status().ToString();
  EXPECT_EQ(handlers(), handlers_before);
  EXPECT_EQ(code(), code_before);
  EXPECT_EQ(::getenv("UCX_MEM_EVENTS"), nullptr);
  EXPECT_EQ(::getenv("UCX_LOG_LEVEL"), nullptr);
}

TEST(UcxWorkerTest, AnAddressOfNothingIsAnError) {
  const auto worker =
      UcxWorker::Create({.transports = "no_such_transport", .packaged = TFOS_PACKAGED_UCX});
  EXPECT_FALSE(worker.ok());
}

/// Two workers of this thread with a stream between them.
struct Pair {
  std::unique_ptr<UcxWorker> workers[2];
  std::unique_ptr<Stream> streams[2];
};

Pair MakePair() {
  Pair pair;
  for (auto& worker : pair.workers) {
    auto made = UcxWorker::Create({.transports = "tcp", .packaged = TFOS_PACKAGED_UCX});
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    worker = std::move(made).value();
  }
  for (const std::size_t i : {0u, 1u}) {
    const std::uint64_t tags[2] = {11, 22};
    auto opened = pair.workers[i]->Open(pair.workers[1 - i]->address(), tags[i], tags[1 - i]);
    EXPECT_TRUE(opened.ok()) << opened.status().ToString();
    pair.streams[i] = std::move(opened).value();
  }
  return pair;
}

/// Sends `data` in one direction, which comes in `at_a_time` bytes.
std::vector<std::byte> Pass(Pair& pair, const std::vector<std::byte>& data, std::size_t at_a_time) {
  std::vector<std::byte> received(data.size());
  std::size_t sent = 0;
  std::size_t got = 0;
  while (sent < data.size() || got < data.size()) {
    if (sent < data.size()) {
      const auto rest = std::span(data).subspan(sent);
      const std::size_t head = std::min<std::size_t>(8, rest.size());
      const auto moved = pair.streams[0]->Send(rest.first(head), rest.subspan(head));
      EXPECT_TRUE(moved.ok()) << moved.status().ToString();
      if (!moved.ok()) return {};
      sent += moved->bytes;
    }
    if (got < data.size()) {
      const auto rest = std::span(received).subspan(got);
      const auto moved = pair.streams[1]->Receive(rest.first(std::min(at_a_time, rest.size())));
      EXPECT_TRUE(moved.ok()) << moved.status().ToString();
      if (!moved.ok()) return {};
      got += moved->bytes;
    }
    pair.workers[0]->Progress();
  }
  return received;
}

TEST(UcxWorkerTest, PassesBytesOfAnyNumberIntoSpaceOfAnySize) {
  Pair pair = MakePair();
  EXPECT_THAT(pair.streams[0]->Describe(), StartsWith("ucx (tcp/"));
  for (const std::size_t size : {1u, 8u, 9u, 8'192u, 8'193u, 100'000u, 1'500'000u}) {
    std::vector<std::byte> data(size);
    for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(i * 7 + i / 253);
    for (const std::size_t at_a_time : {1'000'000u, 3'000u}) {
      EXPECT_EQ(Pass(pair, data, at_a_time), data) << size << " in " << at_a_time;
    }
  }
}

TEST(UcxWorkerTest, WhatIsUnderWayEndsWithTheStream) {
  Pair pair = MakePair();
  const std::vector<std::byte> data(1'000'000, std::byte{5});
  // The other end does not take it, so that it can't be done.
  for (int i = 0; i < 100; ++i) {
    const auto moved = pair.streams[0]->Send({}, data);
    ASSERT_TRUE(moved.ok()) << moved.status().ToString();
    ASSERT_EQ(moved->bytes, 0);
    pair.workers[1]->Progress();
  }
  pair.streams[0].reset();
  pair.workers[0].reset();
}

}  // namespace
}  // namespace tfos::net
