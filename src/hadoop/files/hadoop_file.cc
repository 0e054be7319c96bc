#include "hadoop/files/hadoop_file.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/format.h"
#include "hadoop/files/place.h"

namespace tfos::hadoop {

/// One stream of the file, closed by its destructor.
class HadoopSource::Stream {
 public:
  /// No read begins there.
  static constexpr std::uint64_t kUnknownPosition = ~std::uint64_t{0};

  Stream(Client& client, const Call& call, jobject stream)
      : java(call.java()->NewGlobalRef(stream)), client_(client) {}
  ~Stream() {
    auto call = client_.Begin();
    if (!call.ok()) return;  // In a forked child, where the stream is not.
    JNIEnv* env = (*call)->java();
    env->CallVoidMethod(java, (*call)->methods().input_close);
    env->ExceptionClear();  // Nothing that was read is less true.
    env->DeleteGlobalRef(java);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const jobject java;
  std::uint64_t position = 0;  ///< Of the stream, for its one reader.

 private:
  Client& client_;
};

HadoopSource::HadoopSource(Client& client, const Call& call, jobject stream, std::string path)
    : client_(client),
      path_(std::move(path)),
      stream_(std::make_shared<Stream>(client, call, stream)) {}

HadoopSource::~HadoopSource() = default;

std::shared_ptr<HadoopSource::Stream> HadoopSource::Current() {
  const MutexLock lock(mutex_);
  return stream_;
}

Result<std::size_t> HadoopSource::ReadStream(std::uint64_t offset, std::span<std::byte> room) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  TFOS_ASSIGN_OR_RETURN(jbyteArray const transfer, client_.Transfer(*call));
  JNIEnv* java = call->java();
  const std::shared_ptr<Stream> stream = Current();
  if (offset != stream->position) {
    java->CallVoidMethod(stream->java, call->methods().input_seek, static_cast<jlong>(offset));
    if (java->ExceptionCheck() == JNI_TRUE) {
      // Hadoop refuses to go beyond the end, where there is nothing to read.
      Status status = TakeException(java, fmt::format("read {}", path_));
      const auto nothing =
          ReadAt(*call, *stream, offset, room.first(std::min<std::size_t>(room.size(), 1)));
      if (nothing.ok() && *nothing == 0) return std::size_t{0};
      return status;
    }
    stream->position = offset;
  }
  std::size_t done = 0;
  while (done < room.size()) {
    const auto wanted = static_cast<jint>(std::min(room.size() - done, Jvm::kTransferBytes));
    const jint got =
        java->CallIntMethod(stream->java, call->methods().input_read, transfer, jint{0}, wanted);
    if (Status read = TakeException(java, fmt::format("read {}", path_)); !read.ok()) {
      stream->position = Stream::kUnknownPosition;  // It may have read a part: the next read seeks.
      return read;
    }
    if (got <= 0) break;
    java->GetByteArrayRegion(transfer, 0, got, reinterpret_cast<jbyte*>(room.data() + done));
    done += static_cast<std::size_t>(got);
    stream->position += static_cast<std::uint64_t>(got);
  }
  return done;
}

Result<std::size_t> HadoopSource::ReadAt(std::uint64_t offset, std::span<std::byte> room) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  const std::shared_ptr<Stream> stream = Current();
  return ReadAt(*call, *stream, offset, room);
}

Result<std::size_t> HadoopSource::ReadAt(const Call& call, const Stream& stream,
                                         std::uint64_t offset, std::span<std::byte> room) {
  TFOS_ASSIGN_OR_RETURN(jbyteArray const transfer, client_.Transfer(call));
  JNIEnv* java = call.java();
  std::size_t done = 0;
  while (done < room.size()) {
    const auto wanted = static_cast<jint>(std::min(room.size() - done, Jvm::kTransferBytes));
    const jint got =
        java->CallIntMethod(stream.java, call.methods().input_read_at,
                            static_cast<jlong>(offset + done), transfer, jint{0}, wanted);
    TFOS_RETURN_IF_ERROR(TakeException(java, fmt::format("read {} at {}", path_, offset + done)));
    if (got <= 0) break;
    java->GetByteArrayRegion(transfer, 0, got, reinterpret_cast<jbyte*>(room.data() + done));
    done += static_cast<std::size_t>(got);
  }
  return done;
}

Result<bool> HadoopSource::LookForMore(std::uint64_t offset) {
  // One at a time, so that what was opened later takes the place of what was opened before.
  const MutexLock look(look_mutex_);
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  auto opened = OfPath(*call, call->methods().open, path_, "open");
  if (!opened.ok()) {
    // Deleted: nothing is going to be added.
    if (opened.status().code().value() == ENOENT) return false;
    return std::move(opened).status();
  }
  auto fresh = std::make_shared<Stream>(client_, *call, *opened);
  std::byte first{};
  TFOS_ASSIGN_OR_RETURN(const std::size_t read, ReadAt(*call, *fresh, offset, {&first, 1}));
  if (read == 0) return false;
  const MutexLock lock(mutex_);
  std::swap(stream_, fresh);
  return true;
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

void HadoopWritableFile::Discard() {
  const auto call = Begin();
  if (!call.ok()) return;
  JNIEnv* java = (*call)->java();
  if (jmethodID abort = (*call)->methods().output_abort; abort != nullptr) {
    java->CallObjectMethod(stream_, abort);
    if (java->ExceptionCheck() == JNI_FALSE) {
      java->DeleteGlobalRef(std::exchange(stream_, nullptr));
      return;
    }
    java->ExceptionClear();  // Most file systems can't.
  }
  static_cast<void>(Close());
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
