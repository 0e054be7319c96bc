#include "collective/host/host_algorithms.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <numeric>

namespace tfos::collective {
namespace {

using Stage = HostMemory::Stage;

/// Up to here everybody adds up everything, which saves a wait.
constexpr std::size_t kWholeLimit = std::size_t{16} << 10;
/// Stays in a core's first cache while the parts of all members are added to it.
constexpr std::size_t kBlock = std::size_t{16} << 10;
/// Borders between what different members write.
constexpr std::size_t kLine = 64;

void Copy(std::span<const std::byte> from, std::span<std::byte> to) {
  if (!from.empty()) std::memcpy(to.data(), from.data(), from.size());
}

/// In the order of the members, so that all get the same bits.
Status AddUpWhole(HostMemory& memory, DType dtype, std::span<std::byte> data) {
  const std::uint64_t chunk = memory.TakeChunk();
  TFOS_RETURN_IF_ERROR(memory.AwaitFree(chunk));
  Copy(data, memory.slot(chunk));
  memory.Publish(Stage::kFilled, chunk);
  for (std::size_t member = 0; member < memory.size(); ++member) {
    if (member != memory.rank()) {
      TFOS_RETURN_IF_ERROR(memory.Await(member, Stage::kFilled, chunk));
    }
    const auto theirs = memory.slot(member, chunk).first(data.size());
    if (member == 0) {
      Copy(theirs, data);
    } else {
      AddElements(dtype, theirs, data);
    }
  }
  memory.Publish(Stage::kDone, chunk);
  return {};
}

/// A chunk of a tensor on its way: which part of it each member adds up.
class Share {
 public:
  Share(HostMemory& memory, DType dtype, std::span<std::byte> data)
      : memory_(memory), dtype_(dtype), data_(data), chunk_(memory.TakeChunk()) {
    const std::size_t lines = (data.size() + kLine - 1) / kLine;
    for (std::size_t i = 0; i <= memory.size(); ++i) {
      borders_.push_back(std::min(lines * i / memory.size() * kLine, data.size()));
    }
  }

  /// Gives the others what they add up.
  Status Fill() {
    TFOS_RETURN_IF_ERROR(memory_.AwaitFree(chunk_));
    const std::size_t begin = borders_[memory_.rank()];
    const std::size_t end = borders_[memory_.rank() + 1];
    const std::span<std::byte> slot = memory_.slot(chunk_);
    Copy(data_.first(begin), slot);
    Copy(data_.subspan(end), slot.subspan(end));
    memory_.Publish(Stage::kFilled, chunk_);
    return {};
  }

  /// Adds up this member's part.
  Status Reduce(bool shared) {
    TFOS_RETURN_IF_ERROR(memory_.AwaitAll(Stage::kFilled, chunk_));
    const std::size_t end = borders_[memory_.rank() + 1];
    for (std::size_t at = borders_[memory_.rank()]; at < end; at += kBlock) {
      const std::span<std::byte> block = data_.subspan(at, std::min(kBlock, end - at));
      for (std::size_t member = 0; member < memory_.size(); ++member) {
        if (member == memory_.rank()) continue;
        AddElements(dtype_, memory_.slot(member, chunk_).subspan(at, block.size()), block);
      }
      if (shared) Copy(block, memory_.slot(chunk_).subspan(at));
    }
    memory_.Publish(Stage::kReduced, chunk_);
    return {};
  }

  /// Takes the parts that others have added up.
  Status Collect(bool wanted) {
    for (std::size_t i = 1; wanted && i < memory_.size(); ++i) {
      const std::size_t member = (memory_.rank() + i) % memory_.size();
      TFOS_RETURN_IF_ERROR(memory_.Await(member, Stage::kReduced, chunk_));
      const std::size_t begin = borders_[member];
      const std::size_t bytes = borders_[member + 1] - begin;
      Copy(memory_.slot(member, chunk_).subspan(begin, bytes), data_.subspan(begin));
    }
    memory_.Publish(Stage::kDone, chunk_);
    return {};
  }

 private:
  HostMemory& memory_;
  const DType dtype_;
  const std::span<std::byte> data_;
  const std::uint64_t chunk_;
  std::vector<std::size_t> borders_;
};

/// Chunks are of one size, and so small that members work on different ones at a time.
std::size_t ChunkBytes(std::size_t bytes) {
  constexpr std::size_t kLeast = std::size_t{128} << 10;
  return std::clamp(bytes / 4 / kLine * kLine, kLeast, HostMemory::kSlotBytes);
}

}  // namespace

Status AllReduceOnHost(HostMemory& memory, DType dtype, std::span<std::byte> data,
                       std::optional<std::size_t> only_for) {
  if (data.size() <= kWholeLimit) return AddUpWhole(memory, dtype, data);
  const bool wanted = !only_for || *only_for == memory.rank();
  const bool shared = !only_for || *only_for != memory.rank();
  const std::size_t most = ChunkBytes(data.size());
  std::size_t done = 0;
  const auto next = [&]() -> std::optional<Share> {
    if (done == data.size()) return std::nullopt;
    const std::size_t begin = done;
    done += std::min(most, data.size() - done);
    return Share(memory, dtype, data.subspan(begin, done - begin));
  };
  std::optional<Share> current = next();
  TFOS_RETURN_IF_ERROR(current->Fill());
  while (current) {
    // While others come to this chunk.
    std::optional<Share> ahead = next();
    if (ahead) TFOS_RETURN_IF_ERROR(ahead->Fill());
    TFOS_RETURN_IF_ERROR(current->Reduce(shared));
    TFOS_RETURN_IF_ERROR(current->Collect(wanted));
    current.reset();
    if (ahead) current.emplace(*ahead);
  }
  return {};
}

Status BroadcastOnHost(HostMemory& memory, std::size_t root, std::span<std::byte> data) {
  const std::size_t most = ChunkBytes(data.size());
  std::size_t done = 0;
  do {
    const std::uint64_t chunk = memory.TakeChunk();
    const std::span<std::byte> piece = data.subspan(done, std::min(most, data.size() - done));
    if (memory.rank() == root) {
      TFOS_RETURN_IF_ERROR(memory.AwaitFree(chunk));
      Copy(piece, memory.slot(chunk));
      memory.Publish(Stage::kFilled, chunk);
    } else {
      TFOS_RETURN_IF_ERROR(memory.Await(root, Stage::kFilled, chunk));
      Copy(memory.slot(root, chunk).first(piece.size()), piece);
    }
    memory.Publish(Stage::kDone, chunk);
    done += piece.size();
  } while (done < data.size());
  return {};
}

Status AllGatherOnHost(HostMemory& memory, const std::vector<std::size_t>& bytes,
                       std::span<std::byte> data) {
  std::vector<std::size_t> begins(bytes.size() + 1);
  std::partial_sum(bytes.begin(), bytes.end(), begins.begin() + 1);
  const std::size_t longest = *std::ranges::max_element(bytes);
  // The part of each member's data that lies between these offsets.
  const auto piece = [&](std::size_t member, std::size_t from, std::size_t to) {
    const std::size_t first = std::min(from, bytes[member]);
    return data.subspan(begins[member] + first, std::min(to, bytes[member]) - first);
  };
  const std::size_t most = ChunkBytes(longest);
  for (std::size_t at = 0; at == 0 || at < longest; at += most) {
    const std::uint64_t chunk = memory.TakeChunk();
    TFOS_RETURN_IF_ERROR(memory.AwaitFree(chunk));
    Copy(piece(memory.rank(), at, at + most), memory.slot(chunk));
    memory.Publish(Stage::kFilled, chunk);
    for (std::size_t i = 1; i < memory.size(); ++i) {
      const std::size_t member = (memory.rank() + i) % memory.size();
      TFOS_RETURN_IF_ERROR(memory.Await(member, Stage::kFilled, chunk));
      const std::span<std::byte> theirs = piece(member, at, at + most);
      Copy(memory.slot(member, chunk).first(theirs.size()), theirs);
    }
    memory.Publish(Stage::kDone, chunk);
  }
  return {};
}

}  // namespace tfos::collective
