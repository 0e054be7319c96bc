#ifndef TFOS_FUZZ_BASE_CORPUS_H_
#define TFOS_FUZZ_BASE_CORPUS_H_

#include <vector>

#include "seeds/seed.h"

namespace tfos {

/// Files and stacks in which calls are looked for.
std::vector<Seed> BaseSeeds();

}  // namespace tfos

#endif  // TFOS_FUZZ_BASE_CORPUS_H_
