#ifndef TFOS_FEED_QUEUE_CACHED_EPOCH_H_
#define TFOS_FEED_QUEUE_CACHED_EPOCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/memory/aligned_buffer.h"
#include "base/process/unique_fd.h"
#include "base/thread/mutex.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

/// What the cached epochs of a node take together.
///
/// Owner and lifetime: shared by the epochs. Threads: any. Errors: none. Units: bytes.
class CacheAccount {
 public:
  explicit CacheAccount(std::uint64_t memory_limit) : memory_limit_(memory_limit) {}

  /// False when that much memory is not left; then nothing was taken.
  bool TakeMemory(std::uint64_t bytes);
  void GiveMemoryBack(std::uint64_t bytes) { memory_ -= bytes; }
  void AddFileBytes(std::uint64_t bytes) { file_ += bytes; }
  void RemoveFileBytes(std::uint64_t bytes) { file_ -= bytes; }

  std::uint64_t memory_bytes() const { return memory_; }
  std::uint64_t file_bytes() const { return file_; }

 private:
  const std::uint64_t memory_limit_;
  std::atomic<std::uint64_t> memory_ = 0;
  std::atomic<std::uint64_t> file_ = 0;
};

/// The chunks of an epoch as a node got them, kept to be read again: in memory, and what does not
/// fit there in a file without a name, which goes with the process.
///
/// Owner and lifetime: owns its memory and its file. Threads: any.
/// Errors: of the file: no space left, no such directory. Units: bytes.
class CachedEpoch {
 public:
  struct Chunk {
    std::shared_ptr<const AlignedBuffer> memory;
    std::uint64_t items = 0;
  };

  /// The file is made in `directory` when it is needed. `place` is not kNone.
  CachedEpoch(CachePlace place, std::shared_ptr<CacheAccount> account, std::string directory);
  ~CachedEpoch();

  /// Keeps a copy of the chunk.
  Status Add(std::span<const std::byte> chunk, std::uint64_t items);

  std::size_t chunks() const;
  /// `index` is less than `chunks()`.
  Result<Chunk> Read(std::size_t index) const;

 private:
  struct Kept {
    std::shared_ptr<const AlignedBuffer> memory;  ///< Null: in the file.
    std::uint64_t offset = 0;                     ///< Of the file.
    std::uint64_t bytes = 0;
    std::uint64_t items = 0;
  };

  Result<Kept> KeepInMemory(std::span<const std::byte> chunk);
  Result<Kept> KeepInFile(std::span<const std::byte> chunk);
  /// The file, opened when it is needed first.
  Result<int> File() TFOS_EXCLUDES(mutex_);

  const CachePlace place_;
  const std::shared_ptr<CacheAccount> account_;
  const std::string directory_;

  mutable Mutex mutex_;
  std::vector<Kept> kept_ TFOS_GUARDED_BY(mutex_);
  UniqueFd file_ TFOS_GUARDED_BY(mutex_);  ///< Once it is open it stays the same.
  std::uint64_t memory_bytes_ TFOS_GUARDED_BY(mutex_) = 0;
  std::atomic<std::uint64_t> file_bytes_ = 0;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_QUEUE_CACHED_EPOCH_H_
