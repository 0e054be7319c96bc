#ifndef TFOS_CONTROL_MESSAGES_PARTS_BOOTSTRAP_PARTS_H_
#define TFOS_CONTROL_MESSAGES_PARTS_BOOTSTRAP_PARTS_H_

#include <string>

#include "base/crypto/secret.h"

// What the two bootstraps and `start` carry besides.
//
// Owner and lifetime: values. Threads: plain data. Units: as docs/formats/control-protocol.md says,
// where each field has its name of here.
namespace tfos::control {

/// A JSON object that is handed on as it is.
struct RawJson {
  std::string text = "{}";
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_PARTS_BOOTSTRAP_PARTS_H_
