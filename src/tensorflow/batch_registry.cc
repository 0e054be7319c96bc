#include "tensorflow/batch_registry.h"

namespace tfos::tensorflow {

BatchRegistry& BatchRegistry::Process() {
  // Never destroyed: threads of TensorFlow may still be in an op when the process ends.
  static auto* const registry = new BatchRegistry;
  return *registry;
}

std::int64_t BatchRegistry::Add(const tfos_batch_source& source) {
  if (source.version != TFOS_BATCH_SOURCE_VERSION) return 0;
  const std::lock_guard lock(mutex_);
  const std::int64_t handle = next_++;
  sources_.emplace(handle, BatchSourceReference(source));
  return handle;
}

void BatchRegistry::Remove(std::int64_t handle) {
  std::map<std::int64_t, BatchSourceReference>::node_type removed;
  const std::lock_guard lock(mutex_);
  removed = sources_.extract(handle);
}

std::optional<BatchSourceReference> BatchRegistry::Find(std::int64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto it = sources_.find(handle);
  if (it == sources_.end()) return std::nullopt;
  return BatchSourceReference(*it->second.operator->());
}

}  // namespace tfos::tensorflow

std::int64_t tfos_register_batch_source(const tfos_batch_source* source) {
  return tfos::tensorflow::BatchRegistry::Process().Add(*source);
}

void tfos_unregister_batch_source(std::int64_t handle) {
  tfos::tensorflow::BatchRegistry::Process().Remove(handle);
}
