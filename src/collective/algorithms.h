#ifndef TFOS_COLLECTIVE_ALGORITHMS_H_
#define TFOS_COLLECTIVE_ALGORITHMS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collective/team.h"

// What members of a team do together, each calling the same function; all within one operation of
// its mesh. docs/formats/tensor-protocol.md names the sources.
//
// Threads: as Mesh. Errors: as Mesh::Move has them; what is in `data` is of no use then.

namespace tfos::collective {

/// Sums up in log2(n) steps, each of all of `data`: for little data. `scratch` is of the same size.
Status AllReduceByDoubling(Team& team, DType dtype, std::span<std::byte> data,
                           std::span<std::byte> scratch);

/// Sums up in 2 (n - 1) steps, each of a n-th of `data`: for much data.
Status AllReduceByRing(Team& team, DType dtype, std::span<std::byte> data);

/// Sums up in 2 log2(n) steps that move as much as a ring's: for what lies between. Teams of a
/// power of two only.
Status AllReduceByHalving(Team& team, DType dtype, std::span<std::byte> data);

/// As AllReduceByRing for float32 that travels as a `narrow` type: half the bytes. Sums are made in
/// float32, and rounded whenever they travel. `scratch` is of half the size of `data`.
Status AllReduceByNarrowRing(Team& team, DType narrow, std::span<std::byte> data,
                             std::span<std::byte> scratch);

/// Everybody gets the `data` of `root`, down a binomial tree, a piece after the other.
Status BroadcastByTree(Team& team, std::uint32_t root, std::span<std::byte> data);

/// Everybody gets everybody's: `data` holds one piece after the other, of `bytes` each by member,
/// and this member's is in its place already.
Status AllGatherByRing(Team& team, const std::vector<std::size_t>& bytes,
                       std::span<std::byte> data);

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_ALGORITHMS_H_
