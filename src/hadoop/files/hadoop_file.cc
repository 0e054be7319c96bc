#include "hadoop/files/hadoop_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/format.h"

namespace tfos::hadoop {

HadoopSource::HadoopSource(Client& client, const Call& call, jobject stream, std::string path)
    : client_(client), path_(std::move(path)), stream_(call.java()->NewGlobalRef(stream)) {}

HadoopSource::~HadoopSource() {
  auto call = client_.Begin();
  if (!call.ok()) return;  // In a forked child, where the stream is not.
  JNIEnv* java = (*call)->java();
  java->CallVoidMethod(stream_, (*call)->methods().input_close);
  java->ExceptionClear();  // Nothing that was read is less true.
  java->DeleteGlobalRef(stream_);
}

Result<std::size_t> HadoopSource::ReadStream(std::uint64_t offset, std::span<std::byte> room) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  TFOS_ASSIGN_OR_RETURN(jbyteArray const transfer, client_.Transfer(*call));
  JNIEnv* java = call->java();
  if (offset != position_) {
    java->CallVoidMethod(stream_, call->methods().input_seek, static_cast<jlong>(offset));
    if (java->ExceptionCheck() == JNI_TRUE) {
      // Hadoop refuses to go beyond the end, where there is nothing to read.
      Status status = TakeException(java, fmt::format("read {}", path_));
      const auto nothing = ReadAt(offset, room.first(std::min<std::size_t>(room.size(), 1)));
      if (nothing.ok() && *nothing == 0) return std::size_t{0};
      return status;
    }
    position_ = offset;
  }
  std::size_t done = 0;
  while (done < room.size()) {
    const auto wanted = static_cast<jint>(std::min(room.size() - done, Jvm::kTransferBytes));
    const jint got =
        java->CallIntMethod(stream_, call->methods().input_read, transfer, jint{0}, wanted);
    if (Status read = TakeException(java, fmt::format("read {}", path_)); !read.ok()) {
      position_ = kUnknownPosition;  // It may have read a part: the next read seeks.
      return read;
    }
    if (got <= 0) break;
    java->GetByteArrayRegion(transfer, 0, got, reinterpret_cast<jbyte*>(room.data() + done));
    done += static_cast<std::size_t>(got);
    position_ += static_cast<std::uint64_t>(got);
  }
  return done;
}

Result<std::size_t> HadoopSource::ReadAt(std::uint64_t offset, std::span<std::byte> room) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  TFOS_ASSIGN_OR_RETURN(jbyteArray const transfer, client_.Transfer(*call));
  JNIEnv* java = call->java();
  std::size_t done = 0;
  while (done < room.size()) {
    const auto wanted = static_cast<jint>(std::min(room.size() - done, Jvm::kTransferBytes));
    const jint got =
        java->CallIntMethod(stream_, call->methods().input_read_at,
                            static_cast<jlong>(offset + done), transfer, jint{0}, wanted);
    TFOS_RETURN_IF_ERROR(TakeException(java, fmt::format("read {} at {}", path_, offset + done)));
    if (got <= 0) break;
    java->GetByteArrayRegion(transfer, 0, got, reinterpret_cast<jbyte*>(room.data() + done));
    done += static_cast<std::size_t>(got);
  }
  return done;
}

HadoopWritableFile::HadoopWritableFile(Client& client, const Call& call, jobject stream,
                                       std::string path)
    : client_(client), path_(std::move(path)), stream_(call.java()->NewGlobalRef(stream)) {}

HadoopWritableFile::~HadoopWritableFile() {
  if (stream_ != nullptr) static_cast<void>(Close());
}

Status HadoopWritableFile::Append(std::span<const std::byte> bytes) {
  TFOS_ASSIGN_OR_RETURN(const auto call, Begin());
  TFOS_ASSIGN_OR_RETURN(jbyteArray const transfer, client_.Transfer(*call));
  JNIEnv* java = call->java();
  while (!bytes.empty()) {
    const auto now = static_cast<jint>(std::min(bytes.size(), Jvm::kTransferBytes));
    java->SetByteArrayRegion(transfer, 0, now, reinterpret_cast<const jbyte*>(bytes.data()));
    java->CallVoidMethod(stream_, call->methods().output_write, transfer, jint{0}, now);
    TFOS_RETURN_IF_ERROR(TakeException(java, fmt::format("write {}", path_)));
    bytes = bytes.subspan(static_cast<std::size_t>(now));
  }
  return Status::Ok();
}

Status HadoopWritableFile::Flush() { return Invoke(&HadoopMethods::output_flush, "flush"); }

Status HadoopWritableFile::Sync() { return Invoke(&HadoopMethods::output_sync, "sync"); }

Result<std::uint64_t> HadoopWritableFile::Tell() {
  TFOS_ASSIGN_OR_RETURN(const auto call, Begin());
  const jlong position = call->java()->CallLongMethod(stream_, call->methods().output_position);
  TFOS_RETURN_IF_ERROR(TakeException(call->java(), fmt::format("tell the position in {}", path_)));
  return static_cast<std::uint64_t>(position);
}

Status HadoopWritableFile::Close() {
  TFOS_ASSIGN_OR_RETURN(const auto call, Begin());
  Status closed = Invoke(&HadoopMethods::output_close, "close");
  call->java()->DeleteGlobalRef(std::exchange(stream_, nullptr));
  return closed;
}

Result<std::unique_ptr<Call>> HadoopWritableFile::Begin() {
  if (stream_ == nullptr) return Status::FromErrno(EBADF, fmt::format("{} is closed", path_));
  return client_.Begin();
}

Status HadoopWritableFile::Invoke(jmethodID HadoopMethods::*method, const char* doing) {
  TFOS_ASSIGN_OR_RETURN(const auto call, Begin());
  call->java()->CallVoidMethod(stream_, call->methods().*method);
  return TakeException(call->java(), fmt::format("{} {}", doing, path_));
}

}  // namespace tfos::hadoop
