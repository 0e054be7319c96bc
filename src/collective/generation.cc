#include "collective/generation.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "base/memory/memory_of_host.h"
#include "collective/algorithms.h"
#include "collective/host/host_algorithms.h"

namespace tfos::collective {
namespace {

/// Up to here fewer steps win, beyond it fewer bytes.
constexpr std::size_t kDoublingLimit = std::size_t{32} << 10;
/// Up to here steps still cost something; beyond it the smaller pieces of a ring stay in caches.
constexpr std::size_t kHalvingLimit = std::size_t{2} << 20;

}  // namespace

Result<std::unique_ptr<Generation>> Generation::Connect(GroupOptions options) {
  std::unique_ptr<Generation> made(new Generation());
  TFOS_ASSIGN_OR_RETURN(made->mesh_, Mesh::Connect(std::move(options)));
  TFOS_ASSIGN_OR_RETURN(made->hosts_, MeetOnHosts(*made->mesh_, made->next_number_));
  if (made->hosts_.memory != nullptr) {
    made->watch_.emplace(*made->mesh_, *made->hosts_.memory, made->Neighbours());
  }
  return made;
}

std::string Generation::DescribeTransport() const {
  if (size() == 1) return "nothing, being alone";
  if (IsOneHost()) return "shared memory";
  const std::string streams = mesh_->DescribeStreams();
  return hosts_.memory == nullptr ? streams : "shared memory and " + streams;
}

Clock::Duration Generation::waited() const {
  return hosts_.memory == nullptr ? mesh_->waited() : mesh_->waited() + hosts_.memory->waited();
}

bool Generation::Narrows(std::size_t bytes) const {
  return hosts_.members.size() > 1 && bytes > kDoublingLimit;
}

Team Generation::All() const {
  std::vector<std::uint32_t> all(size());
  std::iota(all.begin(), all.end(), 0);
  return {*mesh_, std::move(all), place()};
}

Operation Generation::Begin(Operation operation, std::string_view name) {
  operation.number = next_number_++;
  operation.name = name.substr(0, Operation::kLongestName);
  mesh_->Begin(operation);
  if (hosts_.memory != nullptr) hosts_.memory->Begin(operation);
  return operation;
}

Status Generation::Fail(Status why) {
  // Told over the connections first: that is where the others look when they see it here.
  why = mesh_->Fail(std::move(why));
  if (hosts_.memory != nullptr) hosts_.memory->TellFailed();
  return why;
}

Status Generation::SumUp(const Operation& operation, std::span<std::byte> data) {
  TFOS_RETURN_IF_ERROR(mesh_->failure());
  HostMemory* const memory = hosts_.memory.get();
  if (memory != nullptr) TFOS_RETURN_IF_ERROR(memory->TellThoseWhoLeft());
  if (IsOneHost()) return AllReduceOnHost(*memory, operation.dtype, data);
  if (!HasHosts()) {
    Team all = All();
    return SumUpOverConnections(all, operation, data);
  }
  // The first on each host has its sum, adds up those of all hosts, and gives back what comes out.
  if (memory != nullptr) TFOS_RETURN_IF_ERROR(AllReduceOnHost(*memory, operation.dtype, data, 0));
  if (Neighbours().front() == place()) {
    Team speakers = Speakers(Neighbours().front());
    TFOS_RETURN_IF_ERROR(SumUpOverConnections(speakers, operation, data));
  }
  return memory == nullptr ? Status() : BroadcastOnHost(*memory, 0, data);
}

Status Generation::SumUpOverConnections(Team& team, const Operation& operation,
                                        std::span<std::byte> data) {
  if (team.size() == 1) return {};
  if (data.size() <= kDoublingLimit) {
    scratch_.resize(data.size());
    return AllReduceByDoubling(team, operation.dtype, data, scratch_);
  }
  if (operation.wire == Operation::kAsItIs) {
    return std::has_single_bit(team.size()) && data.size() <= kHalvingLimit
               ? AllReduceByHalving(team, operation.dtype, data)
               : AllReduceByRing(team, operation.dtype, data);
  }
  scratch_.resize(data.size() / sizeof(float) * ElementBytes(operation.wire));
  return AllReduceByNarrowRing(team, operation.wire, data, scratch_);
}

Team Generation::Speakers(std::uint32_t instead) const {
  std::vector<std::uint32_t> speakers;
  for (const std::vector<std::uint32_t>& members : hosts_.members) {
    const bool there = std::ranges::find(members, instead) != members.end();
    speakers.push_back(there ? instead : members.front());
  }
  return {*mesh_, std::move(speakers), static_cast<std::uint32_t>(hosts_.own)};
}

Status Generation::Spread(std::uint32_t root, std::span<std::byte> data) {
  TFOS_RETURN_IF_ERROR(mesh_->failure());
  HostMemory* const memory = hosts_.memory.get();
  if (memory != nullptr) TFOS_RETURN_IF_ERROR(memory->TellThoseWhoLeft());
  if (!HasHosts()) {
    Team all = All();
    return BroadcastByTree(all, root, data);
  }
  // The root speaks for its host, on others the first does.
  const auto& near = Neighbours();
  const auto root_here = std::ranges::find(near, root);
  const std::uint32_t speaker = root_here != near.end() ? root : near.front();
  if (hosts_.members.size() > 1 && speaker == place()) {
    const auto of_root = std::ranges::find_if(hosts_.members, [root](const auto& members) {
      return std::ranges::find(members, root) != members.end();
    });
    Team speakers = Speakers(root);
    TFOS_RETURN_IF_ERROR(BroadcastByTree(
        speakers, static_cast<std::uint32_t>(of_root - hosts_.members.begin()), data));
  }
  if (memory == nullptr) return {};
  const auto place = std::ranges::find(near, speaker) - near.begin();
  return BroadcastOnHost(*memory, static_cast<std::size_t>(place), data);
}

Result<std::vector<std::size_t>> Generation::ShareSize(std::size_t bytes) {
  sizes_.assign(size(), 0);
  sizes_[place()] = bytes;
  TFOS_RETURN_IF_ERROR(Gather(std::vector<std::size_t>(size(), sizeof(std::size_t)),
                              std::as_writable_bytes(std::span(sizes_))));
  // Offsets are made of them: what others say is checked first.
  TFOS_RETURN_IF_ERROR(SumOf(sizes_).status());
  return sizes_;
}

Result<std::size_t> Generation::SumOf(std::span<const std::size_t> sizes) const {
  return SumOfSizes(sizes,
                    [this](std::size_t member) { return mesh_->options().members[member].name; });
}

Status Generation::Gather(const std::vector<std::size_t>& sizes, std::span<std::byte> data) {
  TFOS_RETURN_IF_ERROR(mesh_->failure());
  if (IsOneHost()) {
    TFOS_RETURN_IF_ERROR(hosts_.memory->TellThoseWhoLeft());
    return AllGatherOnHost(*hosts_.memory, sizes, data);
  }
  Team all = All();
  return AllGatherByRing(all, sizes, data);
}

Status Generation::TellLeft() {
  if (hosts_.memory != nullptr) hosts_.memory->TellLeft();
  return mesh_->TellLeft(next_number_);
}

Result<std::optional<Operation>> Generation::AwaitOther() {
  const std::uint64_t number = next_number_;
  return mesh_->AwaitOther(number, [this, number]() -> Result<std::optional<Operation>> {
    if (hosts_.memory == nullptr) return std::optional<Operation>();
    return hosts_.memory->Find(number);
  });
}

Status Generation::TakePart(const Operation& operation) {
  // A member that began something else before it left is told so by the comparison of numbers.
  Begin(operation, operation.name);
  // What another member says makes this one take memory, and all of it is touched.
  if (const std::uint64_t bytes = operation.elements * ElementBytes(operation.dtype),
      most = MemoryOfHost();
      bytes > most) {
    return {ErrorKind::kBadInput,
            fmt::format("{} takes {} bytes of every member, and {}, which has left and takes part "
                        "with zeros, has {} bytes of memory",
                        operation.Describe(), bytes, mesh_->options().members[place()].name, most)};
  }
  std::vector<std::byte> nothing;
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      nothing.resize(operation.elements * ElementBytes(operation.dtype));
      return SumUp(operation, nothing);
    case OperationKind::kBroadcast:
      if (operation.root == place() || operation.root >= size()) {
        return {ErrorKind::kBadInput,
                fmt::format("{} wants something of a member that has left", operation.Describe())};
      }
      nothing.resize(operation.elements);
      return Spread(operation.root, nothing);
    case OperationKind::kGatherSizes: {
      const auto sizes = ShareSize(0);
      return sizes.ok() ? Status() : sizes.status();
    }
    case OperationKind::kAllGather:
      // The sum was checked when the sizes came.
      if (sizes_.size() != size() ||
          std::accumulate(sizes_.begin(), sizes_.end(), std::uint64_t{0}) != operation.elements) {
        return {ErrorKind::kBadInput,
                fmt::format("{} is not as the sizes before it have it", operation.Describe())};
      }
      nothing.resize(operation.elements);
      return Gather(sizes_, nothing);
    case OperationKind::kBarrier:
      return SumUp(operation, {});
    case OperationKind::kMeet:
      break;  // That was before anybody could leave.
  }
  return {ErrorKind::kBug, "an operation of no kind"};
}

}  // namespace tfos::collective
