#include "control/host/gpu_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

namespace tfos::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// GPUs with names of their own, so that test processes that run side by side don't meet.
std::vector<Gpu> MakeGpus(int count) {
  std::vector<Gpu> gpus;
  for (int i = 0; i < count; ++i) {
    gpus.push_back(
        {std::to_string(i), "test-" + std::to_string(::getpid()) + "-" + std::to_string(i)});
  }
  return gpus;
}

GpuRequest Want(int count, double fraction = 0.0, std::vector<std::string> assigned = {}) {
  return {.assigned = std::move(assigned), .count = count, .fraction = fraction};
}

TEST(GpuListTest, ReadsWhatNvidiaSmiPrints) {
  auto gpus = ParseGpuList("0, GPU-aa\n1, GPU-bb\r\n\n");
  ASSERT_TRUE(gpus.ok());
  ASSERT_EQ(gpus->size(), 2U);
  EXPECT_EQ((*gpus)[1].index, "1");
  EXPECT_EQ((*gpus)[1].uuid, "GPU-bb");
  EXPECT_FALSE(ParseGpuList("No devices were found\n").ok());
}

TEST(GpuLeaseTest, NoneWantedNoneTaken) {
  auto lease = GpuLease::Take(Want(0, 0.0, {"3"}), MakeGpus(1));
  ASSERT_TRUE(lease.ok());
  EXPECT_TRUE(lease->indices().empty());
}

TEST(GpuLeaseTest, SparksAssignmentIsUsedAsItIs) {
  const auto gpus = MakeGpus(4);
  auto everything = GpuLease::Take(Want(4), gpus);
  ASSERT_TRUE(everything.ok());
  auto lease = GpuLease::Take(Want(1, 0.0, {"3", "1"}), gpus);
  ASSERT_TRUE(lease.ok());
  EXPECT_THAT(lease->indices(), ElementsAre("3"));
  auto too_few = GpuLease::Take(Want(2, 0.0, {"3"}), gpus);
  ASSERT_FALSE(too_few.ok());
  EXPECT_THAT(too_few.status().ToString(), HasSubstr("spark.task.resource.gpu.amount"));
}

TEST(GpuLeaseTest, WholeGpusAreExclusive) {
  const auto gpus = MakeGpus(2);
  auto first = GpuLease::Take(Want(1), gpus);
  auto second = GpuLease::Take(Want(1), gpus);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(second.ok());
  EXPECT_THAT(first->indices(), ElementsAre("0"));
  EXPECT_THAT(second->indices(), ElementsAre("1"));
  auto third = GpuLease::Take(Want(1), gpus);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(third.status().ToString(), HasSubstr("the host has 2"));
  EXPECT_THAT(third.status().ToString(), HasSubstr("0, 1"));
}

TEST(GpuLeaseTest, SharesFillAGpuAndNoMore) {
  const auto gpus = MakeGpus(1);
  std::vector<GpuLease> leases;
  for (int i = 0; i < 3; ++i) {
    auto lease = GpuLease::Take(Want(1, 0.3), gpus);
    ASSERT_TRUE(lease.ok()) << i;
    leases.push_back(std::move(lease).value());
  }
  EXPECT_FALSE(GpuLease::Take(Want(1, 0.2), gpus).ok());
  EXPECT_FALSE(GpuLease::Take(Want(1), gpus).ok());
  EXPECT_TRUE(GpuLease::Take(Want(1, 0.1), gpus).ok());
}

TEST(GpuLeaseTest, AFailedAttemptKeepsNothing) {
  const auto gpus = MakeGpus(2);
  auto share = GpuLease::Take(Want(1, 0.1), gpus);
  ASSERT_TRUE(share.ok());
  EXPECT_FALSE(GpuLease::Take(Want(2), gpus).ok());
  EXPECT_TRUE(GpuLease::Take(Want(1), gpus).ok());
}

TEST(GpuLeaseTest, WhatTheHostDoesNotHaveIsBadInput) {
  auto lease = GpuLease::Take(Want(2), MakeGpus(1));
  ASSERT_FALSE(lease.ok());
  EXPECT_EQ(lease.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(lease.status().ToString(), HasSubstr("the host has 1"));
  EXPECT_FALSE(GpuLease::Take(Want(1, 1.5), MakeGpus(1)).ok());
}

TEST(GpuLeaseTest, EndsWithItsHolderHoweverThatEnds) {
  const auto gpus = MakeGpus(1);
  int fds[2];
  ASSERT_EQ(::pipe(fds), 0);
  const pid_t holder = ::fork();
  ASSERT_GE(holder, 0);
  if (holder == 0) {
    auto lease = GpuLease::Take(Want(1), gpus);
    const char taken = lease.ok() ? 'y' : 'n';
    if (::write(fds[1], &taken, 1) != 1) ::_exit(1);
    while (true) ::pause();
  }
  char taken = 0;
  ASSERT_EQ(::read(fds[0], &taken, 1), 1);
  EXPECT_EQ(taken, 'y');
  EXPECT_FALSE(GpuLease::Take(Want(1), gpus).ok());
  ::kill(holder, SIGKILL);
  ::waitpid(holder, nullptr, 0);
  EXPECT_TRUE(GpuLease::Take(Want(1), gpus).ok());
  ::close(fds[0]);
  ::close(fds[1]);
}

}  // namespace
}  // namespace tfos::control
