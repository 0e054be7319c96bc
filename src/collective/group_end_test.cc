// How a group goes on and ends without some of its members: those that stall, die, close or leave.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <latch>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/process/unique_fd.h"
#include "collective/group.h"
#include "collective/group_fixture.h"
#include "collective/test_members.h"

namespace tfos::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST_P(TransportTest, WhoClosesEndsItForAll) {
  std::vector<std::string> told(3);
  RunMembers(Make(3), [&told](Group& group) {
    if (group.rank() == 2) {
      group.Close("the program of worker:2 failed");
      return;
    }
    std::vector<float> values(1'000'000);
    told[group.rank()] = group.AllReduce(DType::kFloat32, Bytes(values), "x").ToString();
  });
  EXPECT_THAT(told[0], HasSubstr("the program of worker:2 failed"));
  EXPECT_THAT(told[1], HasSubstr("the program of worker:2 failed"));
}

TEST_P(TransportTest, WhoHasNoMemoryEndsItForAll) {
  std::latch failed(1);
  std::atomic<bool> has_memory = true;
  std::vector<GroupOptions> options = Make(2);
  options[0].check = [&]() -> Status {
    if (!has_memory) throw std::bad_alloc();
    return {};
  };
  RunMembers(std::move(options), [&](Group& group) {
    std::vector<float> values(8);
    if (group.rank() == 1) {
      failed.wait();
      // The other may have sent its elements before.
      static_cast<void>(group.AllReduce(DType::kFloat32, Bytes(values), "x").ok());
      EXPECT_THAT(group.Barrier("next").ToString(), HasSubstr("no memory"));
      return;
    }
    has_memory = false;
    EXPECT_EQ(group.AllReduce(DType::kFloat32, Bytes(values), "x").kind(), ErrorKind::kNoResources);
    const Clock::Duration busy = group.busy();
    EXPECT_EQ(group.busy(), busy) << "nothing goes on any more";
    failed.count_down();
  });
}

TEST_P(TransportTest, CloseEndsAWait) {
  std::latch done(1);
  RunMembers(Make(2), [&done](Group& group) {
    if (group.rank() == 0) {
      done.wait();  // Is there, and does not come.
      return;
    }
    std::thread closer([&group] { group.Close("enough"); });
    EXPECT_EQ(group.Barrier("never").kind(), ErrorKind::kReconnect);
    closer.join();
    done.count_down();
  });
}

/// What this process writes, its log among it, line by line.
class Output {
 public:
  Output() : saved_((std::fflush(stdout), ::dup(STDOUT_FILENO))) {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    ::dup2(ends[1], STDOUT_FILENO);
    ::close(ends[1]);
    from_ = ::fdopen(ends[0], "r");
  }
  ~Output() {
    std::fflush(stdout);
    ::dup2(saved_.get(), STDOUT_FILENO);
    std::fclose(from_);
  }
  std::string NextLine() {
    std::string line;
    for (int c = std::fgetc(from_); c != EOF && c != '\n'; c = std::fgetc(from_)) {
      line += static_cast<char>(c);
    }
    return line;
  }

 private:
  UniqueFd saved_;
  FILE* from_ = nullptr;
};

// Covers: node frozen / training
TEST_P(TransportTest, AStallNamesWhoIsWaitedForAndWhatIsMissing) {
  std::vector<GroupOptions> options = Make(4);
  for (GroupOptions& one : options) one.stall_after = std::chrono::milliseconds(300);
  std::latch seen(1);
  Output log;
  std::thread reader([&] {
    // Somebody else may be blamed first, by one that has not heard yet.
    std::string line;
    do {
      line = log.NextLine();
    } while (line.find("\"gradients\" of float32[9] (operation") == std::string::npos ||
             line.find("for worker:3 on host h3") == std::string::npos);
    seen.count_down();
  });
  RunMembers(std::move(options), [&seen](Group& group) {
    if (group.rank() == 3) seen.wait();
    std::vector<float> values(9, 1);
    EXPECT_TRUE(group.AllReduce(DType::kFloat32, Bytes(values), "gradients").ok());
    EXPECT_EQ(values, std::vector<float>(9, 4));
  });
  reader.join();
}

// Covers: node killed / training
TEST_P(TransportTest, AKilledProcessIsNamedByAll) {
  for (std::uint32_t victim = 0; victim < 4; ++victim) {
    std::vector<GroupOptions> options = Make(4);
    GroupOptions of_child = std::move(options[victim]);
    // What a child process may do after a fork of a process without other threads: everything.
    const pid_t child = ::fork();
    if (child == 0) {
      auto group = Group::Join(std::move(of_child));
      if (!group.ok() || !(*group)->Barrier("all here").ok()) ::_exit(1);
      ::raise(SIGKILL);
    }
    of_child.listener.Reset();
    std::vector<std::thread> threads;
    std::vector<std::string> told(options.size());
    for (std::uint32_t rank = 0; rank < told.size(); ++rank) {
      if (rank == victim) continue;
      threads.emplace_back([&, rank] {
        auto group = Group::Join(std::move(options[rank]));
        ASSERT_TRUE(group.ok());
        // It may have died before this one was through.
        Status status = (*group)->Barrier("all here");
        std::vector<float> values(500'000);
        while (status.ok()) {
          status = (*group)->AllReduce(DType::kFloat32, Bytes(values), "gradients");
        }
        EXPECT_EQ(status.kind(), ErrorKind::kReconnect);
        told[rank] = status.ToString();
      });
    }
    for (std::thread& thread : threads) thread.join();
    int ended = 0;
    ASSERT_EQ(::waitpid(child, &ended, 0), child);
    EXPECT_TRUE(WIFSIGNALED(ended) && WTERMSIG(ended) == SIGKILL);
    for (std::uint32_t rank = 0; rank < told.size(); ++rank) {
      if (rank == victim) continue;
      EXPECT_THAT(told[rank], HasSubstr(fmt::format("worker:{} on host h{} closed its connection",
                                                    victim, victim)));
    }
  }
}

TEST_P(TransportTest, WhoHasLeftTakesPartWithNothing) {
  for (const std::uint32_t members : {2u, 3u, 5u}) {
    RunMembers(Make(members), [members](Group& group) {
      // Each leaves after as many rounds as its number is.
      for (std::uint32_t round = 1; round <= group.rank(); ++round) {
        for (const std::size_t elements : {1u, 100u, 50'000u}) {
          std::vector<float> values(elements, 1);
          ASSERT_TRUE(group.AllReduce(DType::kFloat32, Bytes(values), "sum").ok());
          EXPECT_EQ(values, std::vector<float>(elements, static_cast<float>(members - round)));
        }
        ASSERT_TRUE(group.Barrier("round").ok());
        std::vector<float> from_last(1000, static_cast<float>(group.rank()));
        ASSERT_TRUE(group.Broadcast(members - 1, Bytes(from_last), "last").ok());
        EXPECT_EQ(from_last, std::vector<float>(1000, static_cast<float>(members - 1)));
        const auto sizes = group.GatherSizes(8, "rows");
        ASSERT_TRUE(sizes.ok());
        std::vector<std::uint64_t> rows(members - round);
        rows[group.rank() - round] = group.rank();
        ASSERT_TRUE(group.AllGather(*sizes, Bytes(rows), "rows").ok());
        for (std::uint32_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i], i + round);
      }
      const Status left = group.Leave();
      EXPECT_TRUE(left.ok()) << left.ToString();
    });
  }
}

TEST_P(TransportTest, AnyOfThemMayLeaveFirst) {
  for (std::uint32_t members = 2; members <= (UsesUcx(GetParam()) ? 3 : 5); ++members) {
    for (std::uint32_t leavers = 1; leavers + 1 < 1U << members; ++leavers) {
      RunMembers(Make(members), [leavers](Group& group) {
        const auto has_left = [leavers](std::uint32_t rank) { return (leavers >> rank & 1) != 0; };
        const auto left = static_cast<float>(std::popcount(leavers));
        const float there = static_cast<float>(group.size()) - left;
        if (!has_left(group.rank())) {
          for (const std::size_t elements : {3u, 20'000u}) {
            std::vector<float> values(elements, 1);
            ASSERT_TRUE(group.AllReduce(DType::kFloat32, Bytes(values), "sum").ok());
            EXPECT_EQ(values, std::vector<float>(elements, there));
          }
          ASSERT_TRUE(group.Barrier("there").ok());
          std::uint32_t root = 0;
          while (has_left(root)) ++root;
          std::vector<std::uint32_t> from_root = {group.rank()};
          ASSERT_TRUE(group.Broadcast(root, Bytes(from_root), "root").ok());
          EXPECT_EQ(from_root[0], root);
        }
        const Status at_end = group.Leave();
        EXPECT_TRUE(at_end.ok()) << at_end.ToString();
      });
    }
  }
}

TEST_P(TransportTest, NothingIsBroadcastFromWhoHasLeft) {
  RunMembers(Make(3), [](Group& group) {
    if (group.rank() == 0) {
      EXPECT_THAT(group.Leave().ToString(), HasSubstr("of a member that has left"));
      return;
    }
    std::vector<float> values(10);
    EXPECT_THAT(group.Broadcast(0, Bytes(values), "weights").ToString(),
                HasSubstr("of a member that has left"));
  });
}

#ifndef TFOS_SANITIZED  // Where there are not so many addresses.
TEST_P(TransportTest, WhoHasLeftTakesNoMoreMemoryThanThereIs) {
  // Zeros that take no memory before somebody writes to them.
  constexpr std::size_t kBytes = std::size_t{1} << 44;
  void* const zeros = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  std::vector<std::string> told(2);
  RunMembers(Make(2), [&](Group& group) {
    told[group.rank()] =
        group.rank() == 0
            ? group.AllReduce(DType::kFloat32, {static_cast<std::byte*>(zeros), kBytes}, "huge")
                  .ToString()
            : group.Leave().ToString();
  });
  for (const std::string& text : told) {
    EXPECT_THAT(text, AllOf(HasSubstr("\"huge\" of float32["), HasSubstr("worker:1 on host h1"),
                            HasSubstr("bytes of memory")));
  }
  ::munmap(zeros, kBytes);
}
#endif

TEST_P(TransportTest, WhoDiesAfterOthersHaveLeftIsNoticed) {
  RunMembers(Make(3), [](Group& group) {
    if (group.rank() == 2) {
      group.Close("the program of worker:2 failed");
      return;
    }
    EXPECT_THAT(group.Leave().ToString(), HasSubstr("the program of worker:2 failed"));
  });
}

}  // namespace
}  // namespace tfos::collective
