#ifndef TFOS_BASE_PROCESS_DESCRIPTOR_LIMIT_H_
#define TFOS_BASE_PROCESS_DESCRIPTOR_LIMIT_H_

#include "tfos/status.h"

namespace tfos {

/// Lets this process have as many descriptors as its hard limit allows: for servers, to which each
/// peer costs one. The usual soft limit of 1024 is there for select(2) only.
Status RaiseDescriptorLimit();

}  // namespace tfos

#endif  // TFOS_BASE_PROCESS_DESCRIPTOR_LIMIT_H_
