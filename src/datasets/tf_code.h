#ifndef TFOS_DATASETS_TF_CODE_H_
#define TFOS_DATASETS_TF_CODE_H_

#include <cstdint>

#include "tensorflow/tf_codes.h"
#include "tfos/status.h"

namespace tfos::datasets {

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
    case ErrorKind::kNoResources:
      return tensorflow::kTfResourceExhausted;
    case ErrorKind::kInterrupted:
      return tensorflow::kTfCancelled;
    case ErrorKind::kSuperseded:
    case ErrorKind::kBug:
      return kTfInternal;
  }
  return kTfInternal;
}

}  // namespace tfos::datasets

#endif  // TFOS_DATASETS_TF_CODE_H_
