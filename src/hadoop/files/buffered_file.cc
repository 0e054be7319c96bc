#include "hadoop/files/buffered_file.h"

namespace tfos::hadoop {

BufferedFile::~BufferedFile() { static_cast<void>(Close()); }

Status BufferedFile::Append(std::span<const std::byte> bytes) {
  const MutexLock lock(mutex_);
  TFOS_RETURN_IF_ERROR(failure_);
  if (closed_) return file_->Append(bytes);  // It says that it is closed.
  return Keep([&]() -> Status {
    mutex_.AssertHeld();
    if (buffer_.size() + bytes.size() > kBufferBytes) TFOS_RETURN_IF_ERROR(WriteBuffer());
    if (bytes.size() >= kBufferBytes) return file_->Append(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    return Status::Ok();
  });
}

Status BufferedFile::Flush() { return PassOn(&WritableFile::Flush); }

Status BufferedFile::Sync() { return PassOn(&WritableFile::Sync); }

Status BufferedFile::PassOn(Status (WritableFile::*operation)()) {
  const MutexLock lock(mutex_);
  TFOS_RETURN_IF_ERROR(failure_);
  if (closed_) return (*file_.*operation)();  // It says that it is closed.
  return Keep([&]() -> Status {
    mutex_.AssertHeld();
    TFOS_RETURN_IF_ERROR(WriteBuffer());
    return (*file_.*operation)();
  });
}

Result<std::uint64_t> BufferedFile::Tell() {
  const MutexLock lock(mutex_);
  TFOS_RETURN_IF_ERROR(failure_);
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t position, file_->Tell());
  return position + buffer_.size();
}

Status BufferedFile::Close() {
  const MutexLock lock(mutex_);
  if (closed_) return failure_;
  if (failure_.ok()) {
    static_cast<void>(Keep([&] {
      mutex_.AssertHeld();
      return WriteBuffer();
    }));
  }
  closed_ = true;
  if (failure_.ok()) {
    failure_ = file_->Close();
  } else {
    file_->Discard();  // Where files appear when they are closed, this one is not to.
  }
  return failure_;
}

void BufferedFile::Discard() {
  const MutexLock lock(mutex_);
  if (std::exchange(closed_, true)) return;
  buffer_.clear();
  file_->Discard();
}

Status BufferedFile::WriteBuffer() {
  if (buffer_.empty()) return Status::Ok();
  Status status = file_->Append(buffer_);
  buffer_.clear();
  return status;
}

template <typename Operation>
Status BufferedFile::Keep(Operation operation) {
  failure_ = {ErrorKind::kNoResources, "no memory"};  // If the operation throws.
  failure_ = operation();
  return failure_;
}

}  // namespace tfos::hadoop
