#ifndef TFOS_TENSORFLOW_TF_CODE_OF_H_
#define TFOS_TENSORFLOW_TF_CODE_OF_H_

#include "tensorflow/tf_codes.h"
#include "tfos/status.h"

namespace tfos::tensorflow {

/// What an op fails with.
inline TfCode TfCodeOf(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kRetryLater:
    case ErrorKind::kReconnect:
      return kTfUnavailable;
    case ErrorKind::kUnsupported:
      return kTfUnimplemented;
    case ErrorKind::kBadInput:
      return kTfInvalidArgument;
    case ErrorKind::kNoResources:
      return kTfResourceExhausted;
    case ErrorKind::kInterrupted:
      return kTfCancelled;
    case ErrorKind::kSuperseded:
      return kTfAborted;
    case ErrorKind::kBug:
      return kTfInternal;
  }
  return kTfInternal;
}

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_TF_CODE_OF_H_
