#ifndef TFOS_FUZZ_CONTROL_CORPUS_H_
#define TFOS_FUZZ_CONTROL_CORPUS_H_

#include <string>
#include <vector>

namespace tfos {

/// A seed of a fuzz target of the control plane.
struct ControlSeed {
  std::string target;
  std::string name;
  std::string bytes;
};

/// Every control message as it is before anything was filled in, the life of a cluster as
/// roster_fuzz takes it, and what comes to a coordinator's port.
std::vector<ControlSeed> ControlSeeds();

}  // namespace tfos

#endif  // TFOS_FUZZ_CONTROL_CORPUS_H_
