#ifndef TFOS_PYTHON_TF_CODE_H_
#define TFOS_PYTHON_TF_CODE_H_

#include <cstdint>

#include "tensorflow/tf_codes.h"
#include "tfos/status.h"

namespace tfos::python {

using tensorflow::kTfInternal;
using tensorflow::kTfInvalidArgument;
using tensorflow::kTfOutOfRange;
using tensorflow::kTfUnavailable;
using tensorflow::kTfUnimplemented;

/// What an op fails with.
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
