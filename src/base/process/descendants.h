#ifndef TFOS_BASE_PROCESS_DESCENDANTS_H_
#define TFOS_BASE_PROCESS_DESCENDANTS_H_

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <vector>

#include "base/time/deadline.h"
#include "tfos/status.h"

// Processes below this one, those included that have left its process group for a session of their
// own, as daemons do.
//
// Threads: any; `EndChildren` needs that no other thread starts or reaps children meanwhile.
namespace tfos {

/// From now on, processes below this one whose parents end become its children, not those of the
/// system's first process. It must reap them (`ReapOrphans`).
Status AdoptOrphans();

/// Reaps children that have ended, other than `keep`, which others reap.
void ReapOrphans(std::span<const pid_t> keep);

/// Kills all children but `keep`, and whatever becomes a child by that, and reaps them. What the
/// kernel does not let die until the deadline is left; returns how many those are.
std::size_t EndChildren(std::span<const pid_t> keep, Deadline deadline);

/// The processes below this one at this moment. A process whose parent has ended is not among them,
/// unless this one has adopted it.
std::vector<pid_t> Descendants();

}  // namespace tfos

#endif  // TFOS_BASE_PROCESS_DESCENDANTS_H_
