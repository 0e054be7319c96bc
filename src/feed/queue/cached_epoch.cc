#include "feed/queue/cached_epoch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/format.h"

namespace tfos::feed {
namespace {

/// A file that nobody else can see and that goes when it is closed.
Result<UniqueFd> MakeFile(const std::string& directory) {
  UniqueFd file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (file.valid()) return file;
  // Not every file system has such files.
  std::string name = directory + "/tfos-cache-XXXXXX";
  file.Reset(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.valid()) return Status::FromErrno(errno, fmt::format("make a file in {}", directory));
  ::unlink(name.c_str());
  return file;
}

Status WriteAll(int fd, std::span<const std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      return Status::FromErrno(errno, "write");
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::uint64_t>(written);
  }
  return {};
}

Status ReadAll(int fd, std::span<std::byte> bytes, std::uint64_t offset) {
  while (!bytes.empty()) {
    const ssize_t got = ::pread(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Status::FromErrno(errno, "read");
    if (got == 0) return {ErrorKind::kBug, "the file is shorter than what was written"};
    bytes = bytes.subspan(static_cast<std::size_t>(got));
    offset += static_cast<std::uint64_t>(got);
  }
  return {};
}

Result<std::shared_ptr<AlignedBuffer>> Allocate(std::uint64_t bytes) {
  auto memory = std::make_shared<AlignedBuffer>(bytes);
  if (memory->size() != bytes) {
    return Status(ErrorKind::kNoResources, fmt::format("no memory for a chunk of {} bytes", bytes));
  }
  return memory;
}

}  // namespace

bool CacheAccount::TakeMemory(std::uint64_t bytes) {
  std::uint64_t taken = memory_;
  do {
    if (bytes > memory_limit_ || taken > memory_limit_ - bytes) return false;
  } while (!memory_.compare_exchange_weak(taken, taken + bytes));
  return true;
}

CachedEpoch::CachedEpoch(CachePlace place, std::shared_ptr<CacheAccount> account,
                         std::string directory)
    : place_(place), account_(std::move(account)), directory_(std::move(directory)) {}

CachedEpoch::~CachedEpoch() {
  account_->GiveMemoryBack(memory_bytes_);
  account_->RemoveFileBytes(file_bytes_);
}

Status CachedEpoch::Add(std::span<const std::byte> chunk, std::uint64_t items) {
  const bool in_memory = place_ == CachePlace::kMemory && account_->TakeMemory(chunk.size());
  Result<Kept> kept = in_memory ? KeepInMemory(chunk) : KeepInFile(chunk);
  const MutexLock lock(mutex_);
  if (in_memory) memory_bytes_ += chunk.size();
  if (!kept.ok()) return kept.status().Annotate("keep rows for the next epoch");
  kept->items = items;
  kept_.push_back(std::move(*kept));
  return {};
}

Result<CachedEpoch::Kept> CachedEpoch::KeepInMemory(std::span<const std::byte> chunk) {
  TFOS_ASSIGN_OR_RETURN(std::shared_ptr<AlignedBuffer> memory, Allocate(chunk.size()));
  std::memcpy(memory->bytes().data(), chunk.data(), chunk.size());
  return Kept{.memory = std::move(memory), .bytes = chunk.size()};
}

Result<CachedEpoch::Kept> CachedEpoch::KeepInFile(std::span<const std::byte> chunk) {
  TFOS_ASSIGN_OR_RETURN(const int file, File());
  const Kept kept{
      .memory = nullptr, .offset = file_bytes_.fetch_add(chunk.size()), .bytes = chunk.size()};
  account_->AddFileBytes(chunk.size());
  TFOS_RETURN_IF_ERROR(
      WriteAll(file, chunk, kept.offset).Annotate(fmt::format("a cache file in {}", directory_)));
  return kept;
}

Result<int> CachedEpoch::File() {
  const MutexLock lock(mutex_);
  if (!file_.valid()) {
    TFOS_ASSIGN_OR_RETURN(file_, MakeFile(directory_));
  }
  return file_.get();
}

std::size_t CachedEpoch::chunks() const {
  const MutexLock lock(mutex_);
  return kept_.size();
}

Result<CachedEpoch::Chunk> CachedEpoch::Read(std::size_t index) const {
  Kept kept;
  int file = -1;
  {
    const MutexLock lock(mutex_);
    kept = kept_[index];
    file = file_.get();
  }
  if (kept.memory == nullptr) {
    TFOS_ASSIGN_OR_RETURN(std::shared_ptr<AlignedBuffer> memory, Allocate(kept.bytes));
    TFOS_RETURN_IF_ERROR(ReadAll(file, memory->bytes(), kept.offset)
                             .Annotate(fmt::format("a cache file in {}", directory_)));
    kept.memory = std::move(memory);
  }
  return Chunk{.memory = std::move(kept.memory), .items = kept.items};
}

}  // namespace tfos::feed
