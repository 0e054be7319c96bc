#include "collective/host/host_watch.h"

#include <utility>

namespace tfos::collective {

HostWatch::HostWatch(Mesh& mesh, HostMemory& memory, std::vector<std::uint32_t> members)
    : mesh_(mesh), memory_(memory), members_(std::move(members)) {
  memory.SetWatch(*this);
  mesh.SetOnStall([&memory](std::uint32_t culprit) { memory.TellWaiting(culprit); });
}

Status HostWatch::OnWait(std::size_t member, Clock::Duration waited) {
  TFOS_RETURN_IF_ERROR(mesh_.CheckAlive(members_[member], waited));
  if (waited < told_) told_ = {};  // Another wait.
  if (waited - told_ < mesh_.options().stall_after) return {};
  told_ = waited;
  // A member that waits for another is not to blame.
  std::uint32_t culprit = members_[member];
  if (const auto other = memory_.WaitsFor(member); other && *other < mesh_.size()) culprit = *other;
  mesh_.TellOfStall(culprit, waited);
  memory_.TellWaiting(culprit);
  return {};
}

}  // namespace tfos::collective
