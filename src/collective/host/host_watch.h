#ifndef TFOS_COLLECTIVE_HOST_HOST_WATCH_H_
#define TFOS_COLLECTIVE_HOST_HOST_WATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collective/host/host_memory.h"
#include "collective/mesh/mesh.h"

namespace tfos::collective {

/// What a member that waits in shared memory knows from its connections: which members are gone,
/// have left, or keep all waiting.
///
/// Owner and lifetime: of a Group; borrows mesh and memory. Threads: as theirs. Errors: as Mesh.
class HostWatch final : public HostMemory::Watch {
 public:
  /// `members`: those on this host, numbered as in the mesh.
  HostWatch(Mesh& mesh, HostMemory& memory, std::vector<std::uint32_t> members);

  Status OnWait(std::size_t member, Clock::Duration waited) override;
  Status OnLeft(std::size_t member) override { return mesh_.Announce(members_[member]); }
  const std::string& NameOf(std::size_t member) const override {
    return mesh_.options().members[members_[member]].name;
  }

 private:
  Mesh& mesh_;
  HostMemory& memory_;
  const std::vector<std::uint32_t> members_;
  Clock::Duration told_{};  ///< How long the wait had taken when the log last said so.
};

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_HOST_HOST_WATCH_H_
