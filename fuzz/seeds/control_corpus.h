#ifndef TFOS_FUZZ_CONTROL_CORPUS_H_
#define TFOS_FUZZ_CONTROL_CORPUS_H_

#include <vector>

#include "seeds/seed.h"

namespace tfos {

/// Every control message as it is before anything was filled in, the life of a cluster as
/// roster_fuzz takes it, and what comes to a coordinator's port.
std::vector<Seed> ControlSeeds();

}  // namespace tfos

#endif  // TFOS_FUZZ_CONTROL_CORPUS_H_
