#include "collective/group.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <latch>
#include <random>
#include <tuple>
#include <vector>

#include "collective/test_members.h"
#include "net/listen.h"
#include "net/socket.h"
#include "testing/middle_man.h"
#include "testing/send_all.h"

namespace tfos::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using tfos::testing::MiddleMan;

template <typename T>
std::span<std::byte> Bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

bool HaveSameBits(std::span<const float> a, std::span<const float> b) {
  return std::ranges::equal(std::as_bytes(a), std::as_bytes(b));
}

/// Numbers whose sum depends on the order of the additions.
std::vector<float> Values(std::uint32_t rank, std::size_t count) {
  std::mt19937 random(rank * 7919 + 1);
  std::normal_distribution<float> normal(0, 1000);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

struct Case {
  std::uint32_t members;
  std::size_t elements;
};

/// Every transport keeps the same promises.
class TransportTest : public ::testing::TestWithParam<Transport> {
 protected:
  static std::vector<GroupOptions> Make(std::uint32_t members) {
    return MakeMembers(members, GetParam());
  }

  /// What each member is told when one of them, `odd`, runs another program.
  static std::vector<std::string> Told(std::uint32_t members, std::uint32_t odd,
                                       const std::function<Status(Group&)>& program,
                                       const std::function<Status(Group&)>& odd_program) {
    std::vector<std::string> told(members);
    RunMembers(Make(members), [&](Group& group) {
      const Status status = group.rank() == odd ? odd_program(group) : program(group);
      told[group.rank()] = status.ToString();
      // Whatever follows fails with the same.
      EXPECT_EQ(group.Barrier("after").ToString(), status.ToString());
    });
    return told;
  }
};

class GroupTest : public ::testing::TestWithParam<std::tuple<Transport, Case>> {
 protected:
  static Case Sizes() { return std::get<Case>(GetParam()); }
  static std::vector<GroupOptions> Make() {
    return MakeMembers(Sizes().members, std::get<Transport>(GetParam()));
  }
};

TEST_P(GroupTest, SumsUpAndEverybodyHasTheSameBits) {
  const auto [members, elements] = Sizes();
  std::vector<double> expected(elements);
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    const std::vector<float> values = Values(rank, elements);
    for (std::size_t i = 0; i < elements; ++i) expected[i] += static_cast<double>(values[i]);
  }
  std::vector<std::vector<float>> results(members);
  RunMembers(Make(), [&results, elements = elements](Group& group) {
    std::vector<float> values = Values(group.rank(), elements);
    // More than once: operations follow each other without a pause.
    for (int round = 0; round < 3; ++round) {
      values = Values(group.rank(), elements);
      const Status status = group.AllReduce(DType::kFloat32, Bytes(values), "sum");
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    results[group.rank()] = values;
  });
  for (std::size_t i = 0; i < elements; ++i) {
    ASSERT_NEAR(static_cast<double>(results[0][i]), expected[i], 0.01 * members) << i;
  }
  for (const std::vector<float>& result : results) {
    EXPECT_TRUE(HaveSameBits(result, results[0]));
  }
}

TEST_P(GroupTest, NarrowOnTheWayIsTheSameEverywhere) {
  const auto [members, elements] = Sizes();
  for (const DType wire : {DType::kFloat16, DType::kBfloat16}) {
    // Whole numbers up to where bfloat16 has them all, so that nothing is lost on the way.
    const auto value = [](std::size_t i, std::uint32_t rank) {
      return static_cast<float>((i + rank) % 32);
    };
    RunMembers(Make(), [&, count = elements, n = members](Group& group) {
      std::vector<float> values(count);
      for (std::size_t i = 0; i < count; ++i) values[i] = value(i, group.rank());
      const Status status = group.AllReduce(DType::kFloat32, Bytes(values), "sum", wire);
      ASSERT_TRUE(status.ok()) << status.ToString();
      for (std::size_t i = 0; i < count; ++i) {
        float expected = 0;
        for (std::uint32_t rank = 0; rank < n; ++rank) expected += value(i, rank);
        ASSERT_EQ(values[i], expected) << i;
      }
    });
    // Others are rounded, in the same way everywhere.
    std::vector<std::vector<float>> results(members);
    RunMembers(Make(), [&, count = elements](Group& group) {
      std::vector<float> values = Values(group.rank(), count);
      ASSERT_TRUE(group.AllReduce(DType::kFloat32, Bytes(values), "sum", wire).ok());
      results[group.rank()] = values;
    });
    for (const std::vector<float>& result : results) {
      EXPECT_TRUE(HaveSameBits(result, results[0]));
    }
  }
}

TEST_P(GroupTest, BroadcastsFromEveryMember) {
  const auto [members, elements] = Sizes();
  RunMembers(Make(), [elements = elements](Group& group) {
    for (std::uint32_t root = 0; root < group.size(); ++root) {
      std::vector<float> values = Values(group.rank(), elements);
      ASSERT_TRUE(group.Broadcast(root, Bytes(values), "weights").ok());
      EXPECT_EQ(values, Values(root, elements));
    }
  });
}

TEST_P(GroupTest, GathersPiecesOfAnySize) {
  const auto [members, elements] = Sizes();
  RunMembers(Make(), [elements = elements](Group& group) {
    // Member 0 has none.
    std::vector<std::vector<float>> pieces;
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
      pieces.push_back(Values(rank, elements * rank));
    }
    const auto sizes = group.GatherSizes(pieces[group.rank()].size() * sizeof(float), "sizes");
    ASSERT_TRUE(sizes.ok());
    std::vector<float> expected;
    std::vector<float> all;
    for (std::uint32_t rank = 0; rank < group.size(); ++rank) {
      EXPECT_EQ((*sizes)[rank], pieces[rank].size() * sizeof(float));
      expected.insert(expected.end(), pieces[rank].begin(), pieces[rank].end());
      const std::vector<float> mine(pieces[rank].size());
      const auto& own = rank == group.rank() ? pieces[rank] : mine;
      all.insert(all.end(), own.begin(), own.end());
    }
    ASSERT_TRUE(group.AllGather(*sizes, Bytes(all), "pieces").ok());
    EXPECT_EQ(all, expected);
  });
}

std::string NameOfCase(const ::testing::TestParamInfo<std::tuple<Transport, Case>>& instance) {
  const Transport transport = std::get<0>(instance.param);
  const Case sizes = std::get<1>(instance.param);
  return fmt::format("{}{}Members{}Elements", NameOf(transport), sizes.members, sizes.elements);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, GroupTest,
    ::testing::Combine(::testing::Values(Transport::kTcp, Transport::kSharedMemory,
                                         Transport::kTwoHosts, Transport::kTls),
                       ::testing::Values(Case{1, 10}, Case{2, 0}, Case{2, 1}, Case{2, 300'000},
                                         Case{3, 5}, Case{3, 100'001}, Case{4, 1000},
                                         Case{5, 40'000}, Case{8, 17}, Case{8, 30'000},
                                         Case{4, 60'001})),
    NameOfCase);

#ifdef TFOS_HAS_UCX
// What is different there is messages of any size, not who sends them to whom; and a member takes
// longer to start.
INSTANTIATE_TEST_SUITE_P(OverUcx, GroupTest,
                         ::testing::Combine(::testing::Values(Transport::kUcxTcp,
                                                              Transport::kUcxSharedMemory),
                                            ::testing::Values(Case{2, 1}, Case{2, 300'000},
                                                              Case{3, 5}, Case{4, 60'001})),
                         NameOfCase);
#endif

INSTANTIATE_TEST_SUITE_P(All, TransportTest, ::testing::ValuesIn(Transports()),
                         [](const auto& instance) { return NameOf(instance.param); });

TEST_P(TransportTest, SaysWhatItIs) {
  RunMembers(Make(2), [](Group& group) {
    const std::string said = group.transport();
    switch (GetParam()) {
      case Transport::kTcp:
      case Transport::kTwoHosts:  // With one member on each.
        EXPECT_EQ(said, "tcp");
        break;
      case Transport::kSharedMemory:
        EXPECT_EQ(said, "shared memory");
        break;
      case Transport::kTls:
        EXPECT_EQ(said, "tcp with TLS");
        break;
      case Transport::kUcxTcp:
        EXPECT_EQ(said.substr(0, 9), "ucx (tcp/");
        break;
      case Transport::kUcxSharedMemory:
        EXPECT_EQ(said, "ucx (posix/memory)");
    }
  });
}

TEST_P(TransportTest, NobodyLeavesBeforeAllHaveCome) {
  for (const std::uint32_t members : {2u, 3u, 6u}) {
    std::atomic<std::uint32_t> arrived = 0;
    RunMembers(Make(members), [&arrived, members](Group& group) {
      for (std::uint32_t round = 1; round <= 20; ++round) {
        ++arrived;
        ASSERT_TRUE(group.Barrier("all here").ok());
        EXPECT_GE(arrived, round * members);
        ASSERT_TRUE(group.Barrier("all saw it").ok());
      }
    });
  }
}

TEST_P(TransportTest, OtherSizesAreAnErrorThatNamesBoth) {
  const auto reduce = [](std::size_t elements) {
    return [elements](Group& group) {
      std::vector<float> values(elements);
      return group.AllReduce(DType::kFloat32, Bytes(values), "gradients");
    };
  };
  for (const std::string& text : Told(3, 1, reduce(100), reduce(200))) {
    EXPECT_THAT(text, AllOf(HasSubstr("\"gradients\" of float32[100]"),
                            HasSubstr("\"gradients\" of float32[200]"), HasSubstr("worker:")));
  }
  for (const std::string& text : Told(2, 0, reduce(100'000), reduce(200'000))) {
    EXPECT_THAT(text, AllOf(HasSubstr("float32[100000]"), HasSubstr("float32[200000]")));
  }
}

TEST_P(TransportTest, AnotherWireTypeIsAnErrorThatNamesBoth) {
  const auto reduce = [](std::optional<DType> wire) {
    return [wire](Group& group) {
      std::vector<float> values(20'000);
      return group.AllReduce(DType::kFloat32, Bytes(values), "gradients", wire);
    };
  };
  for (const std::string& text : Told(2, 1, reduce({}), reduce(DType::kBfloat16))) {
    EXPECT_THAT(text,
                AllOf(HasSubstr("float32[20000] ("), HasSubstr("float32[20000] sent as bfloat16")));
  }
}

TEST_P(TransportTest, OtherOperationsAreAnErrorThatNamesBoth) {
  const auto texts = Told(
      2, 1, [](Group& group) { return group.Barrier("done"); },
      [](Group& group) {
        std::vector<float> values(8);
        // The root is done when it has sent; then it hears of it.
        const Status sent = group.Broadcast(1, Bytes(values), "weights");
        return sent.ok() ? group.Barrier("done") : sent;
      });
  EXPECT_THAT(texts[0], AllOf(HasSubstr("barrier \"done\""), HasSubstr("broadcast \"weights\"")));
}

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

TEST_P(TransportTest, ASizeThatWrapsIsRefusedByAllWithTheMembersName) {
  // With what the others have the sum is 16, modulo 2^64.
  std::vector<std::string> told(3);
  RunMembers(Make(3), [&told](Group& group) {
    const std::size_t bytes = group.rank() == 1 ? ~std::size_t{0} - 15 : 16;
    const auto sizes = group.GatherSizes(bytes, "rows");
    told[group.rank()] = sizes.status().ToString();
  });
  for (const std::string& text : told) EXPECT_THAT(text, HasSubstr("worker:1 on host h1 wants"));
}

TEST_P(TransportTest, SizesThatAreNotThoseOfTheDataAreRefusedAndEndNothing) {
  RunMembers(Make(2), [](Group& group) {
    std::vector<std::byte> data(16);
    const auto gather = [&](const std::vector<std::size_t>& sizes) {
      return group.AllGather(sizes, data, "rows").ToString();
    };
    EXPECT_THAT(gather({8, 9}), HasSubstr("16 bytes for what"));
    EXPECT_THAT(gather({8, 4, 4}), HasSubstr("3 sizes"));
    EXPECT_THAT(gather({~std::size_t{0} - 15, 32}), HasSubstr("worker:0 on host h0 wants"));
    EXPECT_EQ(gather({8, 8}), "ok");
  });
}

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

TEST_P(TransportTest, WhoDiesAfterOthersHaveLeftIsNoticed) {
  RunMembers(Make(3), [](Group& group) {
    if (group.rank() == 2) {
      group.Close("the program of worker:2 failed");
      return;
    }
    EXPECT_THAT(group.Leave().ToString(), HasSubstr("the program of worker:2 failed"));
  });
}

TEST(GroupJoinTest, WhoDoesNotComeIsNamed) {
  std::vector<GroupOptions> options = MakeMembers(3);
  options[0].connect_timeout = std::chrono::milliseconds(300);
  const auto group = Group::Join(std::move(options[0]));
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(group.status().ToString(),
              AllOf(HasSubstr("worker:1 on host h1"), HasSubstr("worker:2 on host h2")));
}

/// What both members say when the second one does not belong to the first one's group. Nobody else
/// is to come then.
struct Refusal {
  Status first;
  Status second;
  std::string log;
};
Refusal Refuse(std::vector<GroupOptions> options) {
  Refusal refusal;
  std::atomic<bool> other_has_ended = false;
  options[0].check = [&] {
    return other_has_ended ? Status(ErrorKind::kInterrupted, "alone") : Status();
  };
  ::testing::internal::CaptureStdout();  // The log, as nobody has set it up.
  std::thread other([&] {
    refusal.second = Group::Join(std::move(options[1])).status();
    other_has_ended = true;
  });
  refusal.first = Group::Join(std::move(options[0])).status();
  other.join();
  refusal.log = ::testing::internal::GetCapturedStdout();
  EXPECT_EQ(refusal.first.kind(), ErrorKind::kInterrupted);
  EXPECT_EQ(refusal.second.kind(), ErrorKind::kBadInput) << "it need not try again";
  return refusal;
}

class JoinOverTest : public ::testing::TestWithParam<Transport> {};

INSTANTIATE_TEST_SUITE_P(Channels, JoinOverTest,
                         ::testing::Values(Transport::kTcp, Transport::kTls),
                         [](const auto& test) { return NameOf(test.param); });

TEST_P(JoinOverTest, WithoutTheKeyNobodyJoins) {
  std::vector<GroupOptions> options = MakeMembers(2, GetParam());
  auto other = Secret::Generate();
  ASSERT_TRUE(other.ok());
  options[1].key = *other;
  const Refusal refusal = Refuse(std::move(options));
  EXPECT_THAT(refusal.log, AllOf(HasSubstr("the port of tensors of worker:0 on host h0"),
                                 HasSubstr("does not know the cluster's key")));
}

TEST_P(JoinOverTest, AMemberOfAnotherGenerationIsRefusedAndNamed) {
  std::vector<GroupOptions> options = MakeMembers(2, GetParam());
  options[1].generation = 1;
  const Refusal refusal = Refuse(std::move(options));
  EXPECT_THAT(refusal.second.ToString(), HasSubstr("the other end refuses this one"));
  EXPECT_THAT(refusal.log, HasSubstr("member 1 is of generation 1 of the group"));
}

/// As somebody in the middle would lead it there.
TEST_P(JoinOverTest, WhoIsLedToAnotherMembersPortIsRefusedAndNamed) {
  std::vector<GroupOptions> options = MakeMembers(3, GetParam());
  options[2].members[1].port = options[0].members[0].port;
  options.erase(options.begin() + 1);
  const Refusal refusal = Refuse(std::move(options));
  EXPECT_THAT(refusal.second.ToString(), HasSubstr("connect to worker:1 on host h1"));
  EXPECT_THAT(refusal.log,
              HasSubstr("member 2 connected to what it took for member 1, and this is 0"));
}

UniqueFd ConnectOnceItListens(std::uint16_t port, const Wait& wait) {
  while (!wait.deadline.passed()) {
    if (auto socket = net::ConnectTcp("127.0.0.1", port, wait); socket.ok()) {
      return std::move(socket).value();
    }
  }
  return {};
}

TEST(GroupJoinTest, ABitThatSomebodyInTheMiddleChangesEndsTheGroup) {
  std::vector<GroupOptions> options = MakeMembers(2, Transport::kTls);
  ASSERT_TRUE(net::ListenOn(options[0].listener.get(), "for the test").ok());
  // Behind the handshake and what members say when they meet.
  constexpr std::uint64_t kPlace = 100'000;
  const MiddleMan middle(options[0].members[0].port,
                         [](MiddleMan::Direction direction, std::uint64_t at, std::string& bytes) {
                           if (direction == MiddleMan::Direction::kToServer && kPlace >= at &&
                               kPlace - at < bytes.size()) {
                             bytes[kPlace - at] ^= 1;
                           }
                           return true;
                         });
  options[1].members[0].port = middle.port();
  RunMembers(std::move(options), [](Group& group) {
    std::vector<float> values(100'000, 1);
    const Status summed = group.AllReduce(DType::kFloat32, Bytes(values), "sum");
    ASSERT_FALSE(summed.ok());
    EXPECT_THAT(summed.ToString(), HasSubstr(group.rank() == 0 ? "worker:1" : "worker:0"));
    if (group.rank() == 0) {
      EXPECT_THAT(summed.ToString(), HasSubstr("TLS"));
    }
  });
}

/// Strangers that say nothing keep nobody from coming, however many there are.
TEST_P(JoinOverTest, SilentStrangersDelayNobody) {
  std::vector<GroupOptions> options = MakeMembers(2, GetParam());
  ASSERT_TRUE(net::ListenOn(options[0].listener.get(), "for the test").ok());
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 200; ++i) {
    auto stranger = net::ConnectTcp("127.0.0.1", options[0].members[0].port, {});
    ASSERT_TRUE(stranger.ok()) << stranger.status().ToString();
    silent.push_back(std::move(stranger).value());
  }
  RunMembers(std::move(options), [&](Group& group) {
    EXPECT_TRUE(group.Barrier("here").ok());
    if (group.rank() != 0) return;
    // They are disconnected once all members have come: none was given up before.
    for (const UniqueFd& stranger : silent) {
      std::byte none{};
      EXPECT_FALSE(tfos::testing::ReceiveAll(stranger.get(), std::span(&none, 1), {}).ok());
    }
  });
}

// A member that gets no processor for seconds is given up by the one that it connects to.
TEST(GroupJoinTest, AConnectionThatIsClosedDuringTheHandshakeIsTriedAgain) {
  std::vector<GroupOptions> options = MakeMembers(2);
  const UniqueFd listener(::dup(options[0].listener.get()));
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  std::thread late([&] {
    const auto joined = Group::Join(std::move(options[1]));
    EXPECT_TRUE(joined.ok()) << joined.status().ToString();
  });
  for (int closed = 0; closed < 2; ++closed) {
    pollfd ready{.fd = listener.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&ready, 1, -1), 1);
    const UniqueFd given_up(::accept(listener.get(), nullptr, nullptr));
    ASSERT_TRUE(given_up.valid());
  }
  const auto group = Group::Join(std::move(options[0]));
  EXPECT_TRUE(group.ok()) << group.status().ToString();
  late.join();
}

TEST(GroupJoinTest, WhoEncryptsLetsNobodyInWhoDoesNot) {
  for (const std::uint32_t encrypts : {0u, 1u}) {
    std::vector<GroupOptions> options = MakeMembers(2, Transport::kTcp);
    options[encrypts].encryption = net::Encryption::kAlways;
    options[1 - encrypts].encryption = net::Encryption::kNever;
    if (encrypts == 1) {
      // It may think otherwise of an address; what is stronger is taken.
      RunMembers(std::move(options), [](Group& group) {
        EXPECT_EQ(group.transport(), "tcp with TLS");
        EXPECT_TRUE(group.Barrier("here").ok());
      });
      continue;
    }
    const Refusal refusal = Refuse(std::move(options));
    EXPECT_THAT(refusal.second.ToString(), HasSubstr("spark.tfos.encrypt"));
    EXPECT_THAT(refusal.log, HasSubstr("wants plain TCP, and this one TLS"));
  }
}

TEST(GroupJoinTest, EncryptionOfAllAndUcxExcludeEachOther) {
  std::vector<GroupOptions> options = MakeMembers(1);
  options[0].encryption = net::Encryption::kAlways;
  options[0].rdma = Rdma::kPreferred;
  EXPECT_EQ(Group::Join(std::move(options[0])).status().kind(), ErrorKind::kBadInput);
}

TEST(GroupJoinTest, WithoutUcxOnBothSidesTensorsGoOverTcp) {
  std::vector<GroupOptions> options = MakeMembers(2, Transport::kTcp);
  options[0].rdma = Rdma::kPreferred;
  RunMembers(std::move(options), [](Group& group) {
    EXPECT_EQ(group.transport(), "tcp");
    EXPECT_TRUE(group.Barrier("here").ok());
  });
}

TEST(GroupJoinTest, WhoInsistsOnUcxNamesThoseWithoutIt) {
  std::vector<GroupOptions> options = MakeMembers(2, Transport::kTcp);
  options[0].rdma = Rdma::kRequired;
  std::thread other([&] { EXPECT_FALSE(Group::Join(std::move(options[1])).ok()); });
  const auto group = Group::Join(std::move(options[0]));
  EXPECT_EQ(group.status().kind(), ErrorKind::kUnsupported);
#ifdef TFOS_HAS_UCX
  EXPECT_THAT(group.status().ToString(), HasSubstr("worker:1 on host h1"));
#endif
  other.join();
}

TEST(GroupJoinTest, GarbageOnThePortHarmsNobody) {
  std::vector<GroupOptions> options = MakeMembers(2);
  const std::uint16_t port = options[0].members[0].port;
  std::thread first([&] {
    const auto group = Group::Join(std::move(options[0]));
    ASSERT_TRUE(group.ok()) << group.status().ToString();
    EXPECT_TRUE((*group)->Barrier("here").ok());
  });
  const Wait wait{.deadline = Deadline::After(std::chrono::seconds(30))};
  for (int stranger = 0; stranger < 5; ++stranger) {
    const UniqueFd socket = ConnectOnceItListens(port, wait);
    ASSERT_TRUE(socket.valid());
    const std::string garbage(200, static_cast<char>('a' + stranger));
    EXPECT_TRUE(net::Send(socket.get(), std::as_bytes(std::span(garbage)), {}).ok());
  }
  const auto second = Group::Join(std::move(options[1]));
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_TRUE((*second)->Barrier("here").ok());
  first.join();
}

}  // namespace
}  // namespace tfos::collective
