#ifndef TFOS_PYTHON_TF_CODE_H_
#define TFOS_PYTHON_TF_CODE_H_

#include <cstdint>

#include "tfos/status.h"

namespace tfos::python {

/// TF_Code of tensorflow/c/tf_status.h, as far as an op of ours fails with it.
enum TfCode : std::int32_t {
  kTfInvalidArgument = 3,
  kTfOutOfRange = 11,
  kTfUnimplemented = 12,
  kTfInternal = 13,
  kTfUnavailable = 14,
};

inline std::int32_t TfCodeOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kRetryLater:
    case ErrorKind::kReconnect:
      return kTfUnavailable;
    case ErrorKind::kUnsupported:
      return kTfUnimplemented;
    case ErrorKind::kBadInput:
      return kTfInvalidArgument;
    case ErrorKind::kBug:
      return kTfInternal;
  }
  return kTfInternal;
}

}  // namespace tfos::python

#endif  // TFOS_PYTHON_TF_CODE_H_
