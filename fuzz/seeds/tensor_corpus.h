#ifndef TFOS_FUZZ_TENSOR_CORPUS_H_
#define TFOS_FUZZ_TENSOR_CORPUS_H_

#include <vector>

#include "seeds/seed.h"

namespace tfos {

/// What those who exchange tensors say, from the handshake on: members of a group, and workers and
/// parameter servers.
std::vector<Seed> TensorSeeds();

}  // namespace tfos

#endif  // TFOS_FUZZ_TENSOR_CORPUS_H_
