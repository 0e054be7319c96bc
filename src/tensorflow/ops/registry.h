#ifndef TFOS_TENSORFLOW_OPS_REGISTRY_H_
#define TFOS_TENSORFLOW_OPS_REGISTRY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/thread/guarded.h"
#include "base/thread/mutex.h"

namespace tfos::tensorflow {

/// A table of C functions with a counted context (tfos_batch_source, tfos_tensor_group) that is
/// kept while this lives.
///
/// Owner and lifetime: move-only; holds one count of the context. Threads: as the table says.
/// Errors: none.
template <typename Table>
class Reference {
 public:
  explicit Reference(const Table& table) : table_(table) { table_.retain(table_.context); }
  Reference(Reference&& other) noexcept
      : table_(other.table_), held_(std::exchange(other.held_, false)) {}
  Reference& operator=(Reference&&) = delete;
  ~Reference() {
    if (held_) table_.release(table_.context);
  }

  const Table* operator->() const { return &table_; }

 private:
  Table table_;
  bool held_ = true;
};

/// Such tables by handle. One of each kind for the process, as ops know nothing but their inputs.
///
/// Owner and lifetime: holds a count of each context until it is removed. Threads: any.
/// Errors: handle 0 for a table of another version.
template <typename Table>
class Registry {
 public:
  static Registry& Process() {
    // Never destroyed: threads of TensorFlow may still be in an op when the process ends.
    static auto* const registry = new Registry;
    return *registry;
  }

  std::int64_t Add(const Table& table, std::uint32_t version) {
    if (table.version != version) return 0;
    const MutexLock lock(mutex_);
    const std::int64_t handle = next_++;
    tables_.emplace(handle, Reference<Table>(table));
    return handle;
  }

  void Remove(std::int64_t handle) {
    // Let go of without the lock: that may run whatever the owner likes.
    typename decltype(tables_)::node_type removed;
    const MutexLock lock(mutex_);
    removed = tables_.extract(handle);
  }

  std::optional<Reference<Table>> Find(std::int64_t handle) {
    const MutexLock lock(mutex_);
    const auto it = tables_.find(handle);
    if (it == tables_.end()) return std::nullopt;
    return Reference<Table>(*it->second.operator->());
  }

 private:
  Mutex mutex_;
  std::map<std::int64_t, Reference<Table>> tables_ TFOS_GUARDED_BY(mutex_);
  std::int64_t next_ TFOS_GUARDED_BY(mutex_) = 1;  ///< Handles are never reused.
};

/// Adds a table to the process's, for C: handle 0 too where there is no memory for it.
template <typename Table>
std::int64_t Registered(const Table& table, std::uint32_t version) {
  std::int64_t handle = 0;
  Guarded([&] { handle = Registry<Table>::Process().Add(table, version); },
          [](ErrorKind, const char*) {});
  return handle;
}

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_OPS_REGISTRY_H_
