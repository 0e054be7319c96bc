#ifndef TFOS_FUZZ_HOSTILE_CORPUS_H_
#define TFOS_FUZZ_HOSTILE_CORPUS_H_

#include <vector>

#include "seeds/seed.h"

namespace tfos {

/// What coordinators say to agents, nodes and tasks, parameter servers to workers, and what members
/// of a group write into memory that they share: as the targets of these take it.
std::vector<Seed> HostileSeeds();

}  // namespace tfos

#endif  // TFOS_FUZZ_HOSTILE_CORPUS_H_
