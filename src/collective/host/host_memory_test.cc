#include "collective/host/host_memory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tfos::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Stage = HostMemory::Stage;

/// Counts what it is asked; nobody ever dies.
class Observer final : public HostMemory::Watch {
 public:
  Status OnWait(std::size_t, std::chrono::steady_clock::duration) override { return status; }
  Status OnLeft(std::size_t member) override {
    told.push_back(member);
    return {};
  }
  const std::string& NameOf(std::size_t) const override { return name; }

  Status status;
  std::vector<std::size_t> told;
  std::string name = "worker:1 on host b";
};

struct Pair {
  std::unique_ptr<HostMemory> first;
  std::unique_ptr<HostMemory> second;
  Observer of_first;
  Observer of_second;
};

void MakePair(Pair& pair) {
  auto first = HostMemory::Create(2);
  ASSERT_TRUE(first.ok()) << first.status().ToString();
  pair.first = std::move(first).value();
  auto second = HostMemory::Map(UniqueFd(::dup(pair.first->fd())), 2, 1);
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  pair.second = std::move(second).value();
  pair.first->SetWatch(pair.of_first);
  pair.second->SetWatch(pair.of_second);
}

TEST(HostMemoryTest, WhatOneFillsAnotherReads) {
  Pair pair;
  MakePair(pair);
  const Operation operation{.number = 3, .kind = OperationKind::kBarrier, .name = "x"};
  std::thread other([&] {
    pair.second->Begin(operation);
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t chunk = pair.second->TakeChunk();
      ASSERT_TRUE(pair.second->Await(0, Stage::kFilled, chunk).ok());
      EXPECT_EQ(pair.second->slot(0, chunk)[i], static_cast<std::byte>(i));
      pair.second->Publish(Stage::kDone, chunk);
    }
  });
  pair.first->Begin(operation);
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t chunk = pair.first->TakeChunk();
    ASSERT_TRUE(pair.first->AwaitFree(chunk).ok());
    pair.first->slot(chunk)[i] = static_cast<std::byte>(i);
    pair.first->Publish(Stage::kFilled, chunk);
  }
  other.join();
}

TEST(HostMemoryTest, AnotherOperationIsAnErrorThatNamesBoth) {
  Pair pair;
  MakePair(pair);
  pair.first->Begin({.number = 0, .kind = OperationKind::kBroadcast, .elements = 5, .name = "a"});
  pair.second->Begin({.number = 0, .kind = OperationKind::kBarrier, .name = "b"});
  const Status status = pair.first->Await(1, Stage::kFilled, 1);
  EXPECT_EQ(status.kind(), ErrorKind::kBadInput);
  EXPECT_THAT(status.ToString(), AllOf(HasSubstr("worker:1 on host b"), HasSubstr("barrier \"b\""),
                                       HasSubstr("broadcast \"a\"")));
}

TEST(HostMemoryTest, AWaitEndsWhenTheOtherGivesUp) {
  Pair pair;
  MakePair(pair);
  pair.of_first.status = {ErrorKind::kReconnect, "worker:1 gave up"};
  pair.second->TellFailed();
  pair.first->Begin({});
  EXPECT_EQ(pair.first->Await(1, Stage::kFilled, 1).ToString(), "worker:1 gave up");
}

TEST(HostMemoryTest, WhoHasLeftIsToldOnceOfAnOperation) {
  Pair pair;
  MakePair(pair);
  pair.second->TellLeft();
  for (std::uint64_t number = 0; number < 2; ++number) {
    pair.first->Begin({.number = number});
    EXPECT_TRUE(pair.first->TellThoseWhoLeft().ok());
    EXPECT_TRUE(pair.first->TellThoseWhoLeft().ok());
    EXPECT_EQ(pair.of_first.told.size(), number + 1);
    const auto found = pair.second->Find(number);
    ASSERT_TRUE(found.ok() && *found);
    EXPECT_EQ((*found)->number, number);
  }
  const auto none = pair.second->Find(2);
  EXPECT_TRUE(none.ok() && !*none);
}

TEST(HostMemoryTest, WhomAMemberWaitsForIsOfThisOperationOnly) {
  Pair pair;
  MakePair(pair);
  pair.first->Begin({.number = 5});
  pair.second->Begin({.number = 5});
  EXPECT_FALSE(pair.first->WaitsFor(1));
  pair.second->TellWaiting(9);
  EXPECT_EQ(pair.first->WaitsFor(1), 9u);
  pair.first->Begin({.number = 6});
  EXPECT_FALSE(pair.first->WaitsFor(1));
}

TEST(HostMemoryTest, OnlySealedMemoryOfTheRightSizeIsMapped) {
  auto memory = HostMemory::Create(2);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(HostMemory::Map(UniqueFd(::dup((*memory)->fd())), 3, 1).status().kind(),
            ErrorKind::kBadInput);
  UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), ::lseek((*memory)->fd(), 0, SEEK_END)), 0);
  EXPECT_EQ(HostMemory::Map(std::move(unsealed), 2, 1).status().kind(), ErrorKind::kBadInput);
  EXPECT_NE(::ftruncate((*memory)->fd(), 4096), 0);
}

}  // namespace
}  // namespace tfos::collective
