// What the operations of a group do for its members, and refuse.

#include "collective/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/format.h"
#include "collective/group_fixture.h"
#include "collective/test_members.h"

namespace tfos::collective {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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

TEST_P(TransportTest, KnowsWhatItsOperationsTook) {
  RunMembers(Make(2), [](Group& group) {
    EXPECT_EQ(group.busy(), Clock::Duration::zero());
    EXPECT_EQ(group.bytes(), 0);
    std::vector<float> values(100'000, 1.0F);
    ASSERT_TRUE(group.AllReduce(DType::kFloat32, Bytes(values), "sum").ok());
    const Clock::Duration first = group.busy();
    EXPECT_GT(first, Clock::Duration::zero());
    ASSERT_TRUE(group.AllReduce(DType::kFloat32, Bytes(values), "sum").ok());
    EXPECT_GT(group.busy(), first);
    EXPECT_EQ(group.bytes(), 2 * sizeof(float) * values.size());
    ASSERT_TRUE(group.Barrier("of no tensors").ok());
    EXPECT_EQ(group.bytes(), 2 * sizeof(float) * values.size());
    EXPECT_LE(group.waited(), group.busy());
  });
}

// Covers: node frozen / training
TEST_P(TransportTest, AWaitForAnotherMemberCountsWhileItGoesOn) {
  constexpr std::chrono::milliseconds kLong(250);
  std::latch seen(1);
  RunMembers(Make(2), [&](Group& group) {
    if (group.rank() == 1) {
      seen.wait();
      ASSERT_TRUE(group.Barrier("all here").ok());
      return;
    }
    std::thread looker([&] {
      while (group.waited() < kLong) std::this_thread::yield();
      EXPECT_GE(group.busy(), kLong);
      seen.count_down();
    });
    EXPECT_TRUE(group.Barrier("all here").ok());
    looker.join();
    EXPECT_LE(group.waited(), group.busy());
  });
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

}  // namespace
}  // namespace tfos::collective
