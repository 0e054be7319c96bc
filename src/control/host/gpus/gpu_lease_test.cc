#include "control/host/gpus/gpu_lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "net/unix_address.h"

namespace tfos::control {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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

TEST(GpuLeaseTest, SparksAssignmentIsTakenWhoeverUsesIt) {
  auto gpus = MakeGpus(4);
  gpus[3].in_use = true;  // by another task of Spark
  auto lease = GpuLease::Take(Want(1, 0.0, {"3", "1"}), gpus);
  ASSERT_TRUE(lease.ok()) << lease.status().ToString();
  EXPECT_THAT(lease->indices(), ElementsAre("3"));
  EXPECT_FALSE(GpuLease::Take(Want(4), gpus).ok());
  auto too_few = GpuLease::Take(Want(2, 0.0, {"3"}), gpus);
  ASSERT_FALSE(too_few.ok());
  EXPECT_THAT(too_few.status().ToString(), HasSubstr("spark.task.resource.gpu.amount"));
}

TEST(GpuLeaseTest, AnotherOfItsExecutorIsTakenInPlaceOfOneThatSparkAssignedTwice) {
  const auto gpus = MakeGpus(3);
  GpuRequest request = Want(1, 0.0, {"0"});
  request.of_executor = {"0", "1"};
  const auto first = GpuLease::Take(request, gpus);
  const auto second = GpuLease::Take(request, gpus);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(first->indices(), ElementsAre("0"));
  EXPECT_THAT(second->indices(), ElementsAre("1"));
  EXPECT_FALSE(second->shared());
  const auto third = GpuLease::Take(request, gpus);
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(third.status().ToString(),
              HasSubstr("the executor has 2, of which other tfos nodes hold GPU 0, 1 and"));
  request.may_share = true;
  const auto shared = GpuLease::Take(request, gpus);
  ASSERT_TRUE(shared.ok()) << shared.status().ToString();
  EXPECT_THAT(shared->indices(), ElementsAre("0"));
  EXPECT_TRUE(shared->shared());
  EXPECT_THAT(shared->descriptors(), IsEmpty());
}

TEST(GpuLeaseTest, SparksNamesAreLeasedWhereTheDriverTellsNone) {
  const std::string address = MakeGpus(1)[0].uuid;
  const auto first = GpuLease::Take(Want(1, 0.5, {address}), {});
  const auto second = GpuLease::Take(Want(1, 0.5, {address}), {});
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_THAT(second->indices(), ElementsAre(address));
  EXPECT_FALSE(GpuLease::Take(Want(1, 0.5, {address}), {}).ok());
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
  EXPECT_THAT(third.status().ToString(), HasSubstr("other tfos nodes hold GPU 0, 1 and"));
  EXPECT_THAT(third.status().ToString(), HasSubstr("let nodes share them (gpu_fraction)"));
}

TEST(GpuLeaseTest, SharesFillAGpuAndNoMore) {
  const auto gpus = MakeGpus(1);
  std::vector<GpuLease> leases;
  for (int i = 0; i < 3; ++i) {
    auto lease = GpuLease::Take(Want(1, 0.3), gpus);
    ASSERT_TRUE(lease.ok()) << i;
    leases.push_back(std::move(lease).value());
  }
  const auto larger = GpuLease::Take(Want(1, 0.2), gpus);
  ASSERT_FALSE(larger.ok());
  EXPECT_THAT(larger.status().ToString(), HasSubstr("give each a smaller share"));
  EXPECT_FALSE(GpuLease::Take(Want(1), gpus).ok());
  EXPECT_TRUE(GpuLease::Take(Want(1, 0.1), gpus).ok());
}

/// How many nodes with such a share lease the one GPU that Spark assigns to each of their tasks, or
/// that the host has.
int NodesThatShare(double fraction, bool of_spark) {
  const auto gpus = MakeGpus(1);
  std::vector<GpuLease> leases;
  while (true) {
    auto lease = GpuLease::Take(
        Want(1, fraction, of_spark ? std::vector<std::string>{"0"} : std::vector<std::string>{}),
        gpus);
    if (!lease.ok()) return static_cast<int>(leases.size());
    leases.push_back(std::move(lease).value());
  }
}

TEST(GpuLeaseTest, AsManyShareAGpuAsSparkAssignsItTo) {
  EXPECT_EQ(NodesThatShare(0.45, /*of_spark=*/true), 2);
  EXPECT_EQ(NodesThatShare(0.33, /*of_spark=*/true), 3);
  EXPECT_EQ(NodesThatShare(0.25, /*of_spark=*/true), 4);
  EXPECT_EQ(NodesThatShare(0.15, /*of_spark=*/true), 6);
  EXPECT_GE(NodesThatShare(0.125, /*of_spark=*/true), 8);
  EXPECT_EQ(NodesThatShare(0.01, /*of_spark=*/true), 20) << "none takes nothing";
}

TEST(GpuLeaseTest, SharesOfAHostCountInSteps) {
  EXPECT_EQ(NodesThatShare(0.25, /*of_spark=*/false), 4);
  EXPECT_EQ(NodesThatShare(0.33, /*of_spark=*/false), 2);
  EXPECT_EQ(NodesThatShare(0.3, /*of_spark=*/false), 3);
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
  EXPECT_THAT(lease.status().ToString(), HasSubstr("the host has 1: ask for fewer per node"));
  EXPECT_FALSE(GpuLease::Take(Want(1, 1.5), MakeGpus(1)).ok());
}

TEST(GpuLeaseTest, AGpuThatAForeignProcessUsesIsLeftOut) {
  auto gpus = MakeGpus(2);
  MarkGpusInUse(gpus[0].uuid + "\n" + gpus[0].uuid + "\r\n", gpus);
  EXPECT_TRUE(gpus[0].in_use);
  EXPECT_FALSE(gpus[1].in_use);
  for (const double fraction : {0.0, 0.3}) {
    const auto lease = GpuLease::Take(Want(1, fraction), gpus);
    ASSERT_TRUE(lease.ok()) << lease.status().ToString();
    EXPECT_THAT(lease->indices(), ElementsAre("1"));
  }
  const auto both = GpuLease::Take(Want(2), gpus);
  ASSERT_FALSE(both.ok());
  EXPECT_EQ(both.status().kind(), ErrorKind::kRetryLater);
  EXPECT_THAT(
      both.status().ToString(),
      HasSubstr("other tfos nodes hold none and processes that are not of tfos use GPU 0: "));
  EXPECT_THAT(both.status().ToString(), HasSubstr("nvidia-smi shows the other processes"));
}

TEST(GpuLeaseTest, AGpuThatItsOtherTfosNodesUseIsShared) {
  auto gpus = MakeGpus(1);
  const auto first = GpuLease::Take(Want(1, 0.3), gpus);
  ASSERT_TRUE(first.ok());
  gpus[0].in_use = true;  // by the first one's node
  const auto second = GpuLease::Take(Want(1, 0.7), gpus);
  ASSERT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_FALSE(GpuLease::Take(Want(1, 0.1), gpus).ok());
}

UniqueFd Bind(const std::string& name) {
  const auto address = net::AbstractAddress(name);
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::bind(fd.get(), address->get(), address->size), 0) << name;
  return fd;
}

TEST(GpuLeaseTest, WhoOnlyLooksForSlotsIsNoUserOfTheGpu) {
  auto gpus = MakeGpus(1);
  gpus[0].in_use = true;
  {
    // Another agent is checking who uses the GPU, and holds these locks meanwhile.
    std::vector<UniqueFd> looking;
    looking.push_back(Bind("tfos/gpu/" + gpus[0].uuid + "/probe"));
    for (int slot = 0; slot < 5; ++slot) {
      looking.push_back(Bind("tfos/gpu/" + gpus[0].uuid + "/" + std::to_string(slot)));
    }
    const auto lease = GpuLease::Take(Want(1, 0.3), gpus);
    ASSERT_FALSE(lease.ok());
    EXPECT_EQ(lease.status().kind(), ErrorKind::kRetryLater);
  }
  const auto lease = GpuLease::Take(Want(1, 0.3), gpus);
  ASSERT_FALSE(lease.ok());
  EXPECT_THAT(lease.status().ToString(), HasSubstr("processes that are not of tfos use GPU 0"));
}

/// An `nvidia-smi` whose GPU a foreign process uses the first time that it is asked. Or one that
/// waits for ever.
class FakeNvidiaSmi {
 public:
  explicit FakeNvidiaSmi(const std::string& uuid, bool answers = true)
      : path_(std::getenv("PATH")) {
    EXPECT_NE(::mkdtemp(directory_.data()), nullptr);
    std::ofstream(directory_ + "/nvidia-smi")
        << "#!/bin/sh\n"
        << (answers ? "" : "exec sleep infinity\n") << "case \"$1\" in\n--query-gpu=*) echo '0, "
        << uuid << "' ;;\n"
        << "*) [ -e " << directory_ << "/asked ] || echo '" << uuid << "'; : >" << directory_
        << "/asked ;;\nesac\n";
    EXPECT_EQ(::chmod((directory_ + "/nvidia-smi").c_str(), 0700), 0);
    ::setenv("PATH", (directory_ + ":" + path_).c_str(), 1);
  }
  ~FakeNvidiaSmi() {
    ::setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(directory_);
  }

 private:
  std::string directory_ = ::testing::TempDir() + "gpus_XXXXXX";
  std::string path_;
};

TEST(TakeGpusTest, WaitsUntilAForeignProcessHasLeft) {
  const FakeNvidiaSmi fake(MakeGpus(1)[0].uuid);
  boost::asio::io_context io;
  NvidiaSmiInventory inventory;
  std::vector<std::string> taken;
  const GpuRequest request = Want(1);
  boost::asio::co_spawn(
      io,
      [&]() -> boost::asio::awaitable<void> {
        Result<GpuLease> lease =
            co_await TakeGpus(io.get_executor(), request, inventory, [] { return false; });
        EXPECT_TRUE(lease.ok()) << lease.status().ToString();
        if (lease.ok()) taken = lease->indices();
      },
      [](const std::exception_ptr& thrown) { EXPECT_EQ(thrown, nullptr); });
  io.run();
  EXPECT_THAT(taken, ElementsAre("0"));
}

/// Fails as often as it is told, and takes its time.
class SlowInventory final : public GpuInventory {
 public:
  SlowInventory(std::vector<Gpu> gpus, int failures, std::chrono::milliseconds time = {})
      : gpus_(std::move(gpus)), failures_(failures), time_(time) {}

  boost::asio::awaitable<Result<std::vector<Gpu>>> List(
      boost::asio::any_io_executor executor) override {
    boost::asio::steady_timer timer(executor, time_);
    co_await timer.async_wait(boost::asio::use_awaitable);
    if (failures_-- > 0) co_return Status(ErrorKind::kUnsupported, "the driver hangs");
    co_return gpus_;
  }

 private:
  std::vector<Gpu> gpus_;
  int failures_;
  std::chrono::milliseconds time_;
};

/// What TakeGpus gives, as names of GPUs or an error, and what it said in the log.
struct Taken {
  std::vector<std::string> indices = {};
  std::string error = {};
  std::string log = {};
};

Taken TakeOf(GpuInventory& inventory, const GpuRequest& request,
             const std::function<bool()>& cancelled, std::chrono::milliseconds patience) {
  boost::asio::io_context io;
  Taken taken;
  ::testing::internal::CaptureStdout();
  boost::asio::co_spawn(
      io,
      [&]() -> boost::asio::awaitable<void> {
        Result<GpuLease> lease =
            co_await TakeGpus(io.get_executor(), request, inventory, cancelled, patience);
        if (lease.ok()) {
          taken.indices = lease->indices();
        } else {
          taken.error = lease.status().ToString();
        }
      },
      [](const std::exception_ptr& thrown) { EXPECT_EQ(thrown, nullptr); });
  io.run();
  taken.log = ::testing::internal::GetCapturedStdout();
  return taken;
}

TEST(TakeGpusTest, WaitsForAFreeOneHoweverLongTheFirstAnswerTakes) {
  constexpr std::chrono::milliseconds kPatience(500);
  const auto gpus = MakeGpus(1);
  std::optional<Result<GpuLease>> other = GpuLease::Take(Want(1), gpus);
  ASSERT_TRUE(other->ok());
  SlowInventory inventory(gpus, 0, kPatience);
  // The other cluster ends while this one waits.
  const auto other_ends = [&other] {
    other.reset();
    return false;
  };
  const Taken taken = TakeOf(inventory, Want(1), other_ends, kPatience);
  EXPECT_THAT(taken.indices, ElementsAre("0")) << taken.error;
}

TEST(TakeGpusTest, AsksOnceMoreForTheNamesOfWhatSparkHasAssigned) {
  const auto gpus = MakeGpus(2);
  GpuRequest request = Want(1, 0.0, {"0"});
  request.of_executor = {"0", "1"};
  const auto other = GpuLease::Take(request, gpus);
  ASSERT_TRUE(other.ok());
  SlowInventory fails_once(gpus, 1);
  const Taken taken = TakeOf(fails_once, request, [] { return false; }, {});
  EXPECT_THAT(taken.indices, ElementsAre("1")) << taken.error;
  EXPECT_THAT(taken.log, IsEmpty());
}

TEST(TakeGpusTest, SaysThatItDoesNotKnowTheGpusThatSparkHasAssigned) {
  const std::string address = MakeGpus(1)[0].uuid;
  SlowInventory fails({}, 2);
  const Taken taken = TakeOf(fails, Want(1, 0.0, {address}), [] { return false; }, {});
  EXPECT_THAT(taken.indices, ElementsAre(address)) << taken.error;
  EXPECT_THAT(taken.log, HasSubstr("without their UUIDs, and may get one that another"));
  EXPECT_THAT(taken.log, HasSubstr("the driver hangs"));
  SlowInventory fails_too({}, 1);
  EXPECT_THAT(TakeOf(fails_too, Want(1), [] { return false; }, {}).error,
              HasSubstr("the driver hangs"));
}

TEST(VisibleGpusTest, AreThoseThatTheVariableNamesInItsOrder) {
  const std::vector<Gpu> gpus = {{"0", "GPU-a0"}, {"1", "GPU-b1"}, {"2", "GPU-c2"}};
  const auto visible = [&gpus](std::string_view variable) {
    std::vector<std::string> indices;
    for (const Gpu& gpu : VisibleGpus(gpus, variable)) indices.push_back(gpu.index);
    return indices;
  };
  EXPECT_THAT(visible("2,0"), ElementsAre("2", "0"));
  EXPECT_THAT(visible("GPU-b, 0"), ElementsAre("1", "0"));
  EXPECT_THAT(visible(""), IsEmpty());
  EXPECT_THAT(visible("-1"), IsEmpty());
  EXPECT_THAT(visible("1,7,0"), ElementsAre("1"));
  EXPECT_THAT(visible("MIG-x,MIG-y"), ElementsAre("MIG-x", "MIG-y"));
}

TEST(TakeGpusTest, CountsTheVisibleOnesAlone) {
  const FakeNvidiaSmi fake(MakeGpus(1)[0].uuid);
  boost::asio::io_context io;
  NvidiaSmiInventory inventory;
  const GpuRequest one = Want(1);
  std::vector<std::string> taken;
  boost::asio::co_spawn(
      io,
      [&]() -> boost::asio::awaitable<void> {
        for (const char* visible : {"", "0"}) {
          ::setenv("CUDA_VISIBLE_DEVICES", visible, 1);
          auto lease = co_await TakeGpus(io.get_executor(), one, inventory, [] { return false; });
          taken.push_back(lease.ok() ? "" : lease.status().ToString());
        }
      },
      [](const std::exception_ptr& thrown) { EXPECT_EQ(thrown, nullptr); });
  io.run();
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_THAT(taken, ElementsAre(HasSubstr("but the host has 0"), ""));
}

TEST(NvidiaSmiInventoryTest, SaysWhichGpusAreInUse) {
  const std::string uuid = MakeGpus(1)[0].uuid;
  const FakeNvidiaSmi fake(uuid);
  boost::asio::io_context io;
  NvidiaSmiInventory inventory;
  std::vector<bool> in_use;
  boost::asio::co_spawn(
      io,
      [&]() -> boost::asio::awaitable<void> {
        for (int round = 0; round < 2; ++round) {
          Result<std::vector<Gpu>> gpus = co_await inventory.List(io.get_executor());
          EXPECT_TRUE(gpus.ok()) << gpus.status().ToString();
          if (!gpus.ok() || gpus->size() != 1) co_return;
          EXPECT_EQ(gpus->front().uuid, uuid);
          in_use.push_back(gpus->front().in_use);
        }
      },
      [](const std::exception_ptr& thrown) { EXPECT_EQ(thrown, nullptr); });
  io.run();
  EXPECT_THAT(in_use, ElementsAre(true, false));
}

TEST(NvidiaSmiInventoryTest, SaysWhatToDoWhereTheDriverDoesNotAnswerInTime) {
  const FakeNvidiaSmi fake(MakeGpus(1)[0].uuid, /*answers=*/false);
  boost::asio::io_context io;
  NvidiaSmiInventory inventory(std::chrono::milliseconds(100));
  std::string said;
  boost::asio::co_spawn(
      io,
      [&]() -> boost::asio::awaitable<void> {
        said = (co_await inventory.List(io.get_executor())).status().ToString();
      },
      [](const std::exception_ptr& thrown) { EXPECT_EQ(thrown, nullptr); });
  io.run();
  EXPECT_THAT(said, HasSubstr("nvidia-smi did not answer within 0.1 s: the driver hangs, or"));
  EXPECT_THAT(said, HasSubstr("nvidia-smi -pm 1"));
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
