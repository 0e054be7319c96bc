#ifndef TFOS_COLLECTIVE_HOST_HOST_ALGORITHMS_H_
#define TFOS_COLLECTIVE_HOST_HOST_ALGORITHMS_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "collective/host/host_memory.h"
#include "collective/operation/element.h"

// What the members on one host do together through the memory that they share, each calling the
// same function within one operation. Each reads what others give straight from their slots.
//
// Threads and errors: as HostMemory; what is in `data` is of no use after one.

namespace tfos::collective {

/// Sums up: chunk after chunk, each member a part of it for all. With `only_for` the sum is wanted
/// by that member alone, and others keep a part of it.
Status AllReduceOnHost(HostMemory& memory, DType dtype, std::span<std::byte> data,
                       std::optional<std::size_t> only_for = {});

/// Everybody gets the `data` of `root`.
Status BroadcastOnHost(HostMemory& memory, std::size_t root, std::span<std::byte> data);

/// Everybody gets everybody's: as AllGatherByRing.
Status AllGatherOnHost(HostMemory& memory, const std::vector<std::size_t>& bytes,
                       std::span<std::byte> data);

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_HOST_HOST_ALGORITHMS_H_
