// Memory that members on one host share, whose other member writes what it likes while this one
// takes part in an operation. The first byte chooses the operation; the rest are writes, each an
// offset into the other's page of counters and descriptions (two bytes) and a value. The other
// member begins the same operation, says that all is there, and writes on and on. This member comes
// to an end: with odd values, or an error that names the other.

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/memory/shared_memory.h"
#include "base/process/unique_fd.h"
#include "collective/host/host_algorithms.h"
#include "collective/host/host_memory.h"

namespace {

using namespace tfos;              // NOLINT(google-build-using-namespace)
using namespace tfos::collective;  // NOLINT(google-build-using-namespace)

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kMembers = 2;
constexpr std::size_t kWriteBytes = 3;
/// How often the writes are made.
constexpr int kRounds = 64;
/// More than one chunk, and less than two.
constexpr std::size_t kDataBytes = 200'000;

/// Of the members, only the other one ends.
class Watch final : public HostMemory::Watch {
 public:
  Status OnWait(std::size_t, std::chrono::steady_clock::duration) override {
    if (!gone) return {};
    return {ErrorKind::kReconnect, name + " is gone"};
  }
  Status OnLeft(std::size_t) override { return {}; }
  const std::string& NameOf(std::size_t) const override { return name; }

  std::atomic<bool> gone = false;
  const std::string name = "worker:1";
};

Operation OperationOf(int way) {
  const OperationKind kinds[] = {OperationKind::kAllReduce, OperationKind::kAllReduce,
                                 OperationKind::kBroadcast, OperationKind::kAllGather};
  return {.number = 3, .kind = kinds[way], .dtype = DType::kFloat32, .elements = 8, .name = "sum"};
}

Status TakePart(HostMemory& memory, int way) {
  std::vector<std::byte> data(way == 0 ? 64 : kDataBytes);
  switch (way) {
    case 0:
    case 1:
      return AllReduceOnHost(memory, DType::kFloat32, data);
    case 2:
      return BroadcastOnHost(memory, 1, data);
    default:
      return AllGatherOnHost(memory, {kDataBytes / 2, kDataBytes / 2}, data);
  }
}

// The race is what is tested; the reader takes the memory for a stranger's.
#if defined(__clang__)
__attribute__((no_sanitize("thread")))
#endif
void
Write(std::span<std::byte> page, std::span<const std::uint8_t> writes) {
  volatile std::byte* const bytes = page.data();
  for (; writes.size() >= kWriteBytes; writes = writes.subspan(kWriteBytes)) {
    bytes[(writes[0] | writes[1] << 8U) % page.size()] = static_cast<std::byte>(writes[2]);
  }
}

/// What the other member does, with a mapping of its own.
void BeHostile(HostMemory& other, std::span<std::byte> page, int way,
               std::span<const std::uint8_t> writes, Watch& watch) {
  other.Begin(OperationOf(way));
  for (const auto stage :
       {HostMemory::Stage::kFilled, HostMemory::Stage::kReduced, HostMemory::Stage::kDone}) {
    other.Publish(stage, std::numeric_limits<std::uint64_t>::max());
  }
  for (int round = 0; round < kRounds; ++round) Write(page, writes);
  watch.gone = true;
  other.TellFailed();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const int way = data[0] % 4;
  const std::span writes(data + 1, size - 1);
  Watch watch;
  auto created = HostMemory::Create(kMembers);
  if (!created.ok()) std::abort();
  HostMemory& memory = **created;
  memory.SetWatch(watch);
  const auto copy = [&] { return UniqueFd(::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0)); };
  auto mapped = HostMemory::Map(copy(), kMembers, 1);
  const std::size_t all = kMembers * (kPageBytes + HostMemory::kSlots * HostMemory::kSlotBytes);
  auto raw = SharedMemory::Map(copy(), all, /*writable=*/true);
  if (!mapped.ok() || !raw.ok()) std::abort();
  (*mapped)->SetWatch(watch);
  std::thread other([&] {
    BeHostile(**mapped, raw->bytes().subspan(kPageBytes, kPageBytes), way, writes, watch);
  });
  memory.Begin(OperationOf(way));
  const Status status = TakePart(memory, way);
  for (const std::uint64_t number : {std::uint64_t{0}, std::uint64_t{3}, std::uint64_t{11}}) {
    const auto found = memory.Find(number);
    if (found.ok() && *found && (*found)->name.size() > Operation::kLongestName) std::abort();
  }
  (void)memory.WaitsFor(1);
  (void)memory.TellThoseWhoLeft().ok();
  other.join();
  if (!status.ok() && status.message().empty()) std::abort();
  return 0;
}
