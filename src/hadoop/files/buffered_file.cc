#include "hadoop/files/buffered_file.h"

namespace tfos::hadoop {

BufferedFile::~BufferedFile() { static_cast<void>(Close()); }

Status BufferedFile::Append(std::span<const std::byte> bytes) {
  const MutexLock lock(mutex_);
  TFOS_RETURN_IF_ERROR(failure_);
  if (closed_) return file_->Append(bytes);  // It says that it is closed.
  if (buffer_.size() + bytes.size() > kBufferBytes) TFOS_RETURN_IF_ERROR(WriteBuffer());
  if (bytes.size() >= kBufferBytes) return Keep(file_->Append(bytes));
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  return Status::Ok();
}

Status BufferedFile::Flush() {
  const MutexLock lock(mutex_);
  TFOS_RETURN_IF_ERROR(WriteBuffer());
  return Keep(file_->Flush());
}

Status BufferedFile::Sync() {
  const MutexLock lock(mutex_);
  TFOS_RETURN_IF_ERROR(WriteBuffer());
  return Keep(file_->Sync());
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
  static_cast<void>(WriteBuffer());  // Its failure is kept.
  static_cast<void>(Keep(file_->Close()));
  closed_ = true;
  return failure_;
}

Status BufferedFile::WriteBuffer() {
  TFOS_RETURN_IF_ERROR(failure_);
  if (buffer_.empty()) return Status::Ok();
  Status status = Keep(file_->Append(buffer_));
  buffer_.clear();
  return status;
}

Status BufferedFile::Keep(Status status) {
  // What is asked of a closed file takes nothing from it.
  if (closed_) return status;
  if (failure_.ok()) failure_ = std::move(status);
  return failure_;
}

}  // namespace tfos::hadoop
