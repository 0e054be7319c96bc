#ifndef TFOS_PYTHON_OBJECTS_ERRORS_H_
#define TFOS_PYTHON_OBJECTS_ERRORS_H_

#include <utility>

#include "python/objects/python_object.h"
#include "tfos/status.h"

namespace tfos::python {

// How failures cross from C++ to Python. Inside this folder C++ exceptions are allowed, because
// nanobind turns them into Python's at its edge; nothing below this folder throws.

/// What failed, as the exceptions of tfos.errors tell it apart.
enum class Domain {
  kFeed,     ///< Rows between Spark's tasks and nodes, and their encoding.
  kTensors,  ///< Tensors between nodes, and to and from parameter servers.
  kCluster,  ///< Anything else of a node: its agent, its GPUs.
};

/// Throws the exception of tfos.errors that fits a failure:
///                 kFeed             kTensors            kCluster
///   kRetryLater   FeedTimeoutError  TensorTimeoutError  ClusterTimeoutError
///   kReconnect    NodeLostError     NodeLostError       TfosError
///   kBadInput     BadInputError     BadInputError       BadInputError
///   kNoResources  ResourceError     ResourceError       ResourceError
///   others        FeedError         TensorError         TfosError
/// When Python's error indicator is set (a signal handler raised), that error wins. Needs the GIL.
[[noreturn]] void ThrowStatus(const Status& status, Domain domain = Domain::kFeed);

/// Throws the exception that fits a failure with files: OSError where the operating system said no,
/// else BadInputError for kBadInput and TfosError for others. Python's error indicator wins, as
/// above. Needs the GIL.
[[noreturn]] void ThrowFileStatus(const Status& status);

inline void ThrowIfFileError(const Status& status) {
  if (!status.ok()) ThrowFileStatus(status);
}

template <typename T>
T FileValueOrThrow(Result<T> result) {
  if (!result.ok()) ThrowFileStatus(result.status());
  return std::move(result).value();
}

inline void ThrowIfError(const Status& status, Domain domain = Domain::kFeed) {
  if (!status.ok()) ThrowStatus(status, domain);
}

template <typename T>
T ValueOrThrow(Result<T> result, Domain domain = Domain::kFeed) {
  if (!result.ok()) ThrowStatus(result.status(), domain);
  return std::move(result).value();
}

}  // namespace tfos::python

#endif  // TFOS_PYTHON_OBJECTS_ERRORS_H_
