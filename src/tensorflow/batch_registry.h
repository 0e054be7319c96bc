#ifndef TFOS_TENSORFLOW_BATCH_REGISTRY_H_
#define TFOS_TENSORFLOW_BATCH_REGISTRY_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "tensorflow/batch_source.h"

namespace tfos::tensorflow {

/// A batch source that is kept while this lives.
///
/// Owner and lifetime: move-only; holds one count of the context. Threads: as the source.
/// Errors: none.
class BatchSourceReference {
 public:
  explicit BatchSourceReference(const tfos_batch_source& source) : source_(source) {
    source_.retain(source_.context);
  }
  BatchSourceReference(BatchSourceReference&& other) noexcept
      : source_(other.source_), held_(std::exchange(other.held_, false)) {}
  BatchSourceReference& operator=(BatchSourceReference&&) = delete;
  ~BatchSourceReference() {
    if (held_) source_.release(source_.context);
  }

  const tfos_batch_source* operator->() const { return &source_; }

 private:
  tfos_batch_source source_;
  bool held_ = true;
};

/// Batch sources by handle. One for the process, as ops know nothing but their inputs.
///
/// Owner and lifetime: holds a count of each source until it is removed. Threads: any.
/// Errors: as said at the C functions of batch_source.h, which it is behind.
class BatchRegistry {
 public:
  static BatchRegistry& Process();

  std::int64_t Add(const tfos_batch_source& source);
  void Remove(std::int64_t handle);
  std::optional<BatchSourceReference> Find(std::int64_t handle);

 private:
  std::mutex mutex_;
  std::map<std::int64_t, BatchSourceReference> sources_;  ///< Guarded by the mutex.
  std::int64_t next_ = 1;                                 ///< Likewise. Handles are never reused.
};

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_BATCH_REGISTRY_H_
