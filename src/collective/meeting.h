#ifndef TFOS_COLLECTIVE_MEETING_H_
#define TFOS_COLLECTIVE_MEETING_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "collective/host/host_memory.h"
#include "collective/mesh/mesh.h"

namespace tfos::collective {

/// Which members share memory.
struct Hosts {
  /// The members on each host, ascending; a member that shares memory with nobody is alone on one.
  /// In the order of their first members, which speak for their hosts.
  std::vector<std::vector<std::uint32_t>> members;
  std::size_t own = 0;                 ///< Where this member is.
  std::unique_ptr<HostMemory> memory;  ///< Null if it is alone there.
};

/// Finds out which members are on one host and lets them share memory. What can't be shared is left
/// to the connections: containers on one machine that don't see each other's sockets, or where
/// memory is short. Takes the next operations of the mesh.
///
/// Errors: as Mesh::Move.
Result<Hosts> MeetOnHosts(Mesh& mesh, std::uint64_t& next_operation);

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_MEETING_H_
