#ifndef TFOS_BASE_PYTHON_ERROR_H_
#define TFOS_BASE_PYTHON_ERROR_H_

#include "tfos/status.h"

namespace tfos {

/// The class of Python's `tfos.errors` that a program gets for a failure of the feed, whether a
/// Python worker or a JVM fed its rows.
constexpr const char* PythonErrorName(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kRetryLater:
      return "FeedTimeoutError";
    case ErrorKind::kReconnect:
      return "NodeLostError";
    case ErrorKind::kBadInput:
      return "BadInputError";
    case ErrorKind::kNoResources:
      return "ResourceError";
    case ErrorKind::kUnsupported:
    case ErrorKind::kSuperseded:
    case ErrorKind::kInterrupted:
    case ErrorKind::kBug:
      return "FeedError";
  }
  return "FeedError";
}

}  // namespace tfos

#endif  // TFOS_BASE_PYTHON_ERROR_H_
