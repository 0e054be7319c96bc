#include "jvm/java_stream.h"

#include <algorithm>
#include <utility>

#include "base/format.h"

namespace tfos::jvm {
namespace {

/// Bytes of the array through which data goes.
constexpr std::size_t kArrayBytes = std::size_t{256} << 10;

Status Pending(const std::string& name, std::string_view doing) {
  return {ErrorKind::kRetryLater, fmt::format("{}: {} failed in Java", name, doing)};
}

jbyteArray NewTransferArray(JNIEnv* java) {
  return java->NewByteArray(static_cast<jsize>(kArrayBytes));
}

jmethodID MethodOf(JNIEnv* java, jobject stream, const char* name, const char* type) {
  return java->GetMethodID(java->GetObjectClass(stream), name, type);
}

class JavaSource : public records::ByteSource {
 public:
  JavaSource(JNIEnv* java, jobject stream, jbyteArray array, jmethodID read, std::string name)
      : stream_(java, stream), array_(java, array), read_(read), name_(std::move(name)) {}

  Result<std::size_t> Read(std::span<std::byte> room) override {
    JNIEnv* const java = stream_.java();
    const auto most = static_cast<jint>(std::min(room.size(), kArrayBytes));
    auto* const array = static_cast<jbyteArray>(array_.get());
    const jint count = java->CallIntMethod(stream_.get(), read_, array, jint{0}, most);
    if (java->ExceptionCheck() == JNI_TRUE) return Pending(name_, "reading");
    if (count < 0) return std::size_t{0};
    if (count == 0 && most > 0) {
      // InputStream may not do that, and to take it for the end would lose what comes after it.
      return Status(ErrorKind::kBug, name_ + ": a read gave no bytes, and was not at the end");
    }
    if (count > most) return Status(ErrorKind::kBug, name_ + ": read more than was asked for");
    java->GetByteArrayRegion(array, 0, count, reinterpret_cast<jbyte*>(room.data()));
    return static_cast<std::size_t>(count);
  }

  const std::string& name() const override { return name_; }

 private:
  const JavaReference stream_;
  const JavaReference array_;
  const jmethodID read_;
  const std::string name_;
};

class JavaSink : public records::ByteSink {
 public:
  JavaSink(JNIEnv* java, jobject stream, jbyteArray array, jmethodID write, std::string name)
      : stream_(java, stream), array_(java, array), write_(write), name_(std::move(name)) {}

  Status Write(std::span<const std::byte> bytes) override {
    JNIEnv* const java = stream_.java();
    auto* const array = static_cast<jbyteArray>(array_.get());
    while (!bytes.empty()) {
      const auto count = static_cast<jint>(std::min(bytes.size(), kArrayBytes));
      java->SetByteArrayRegion(array, 0, count, reinterpret_cast<const jbyte*>(bytes.data()));
      java->CallVoidMethod(stream_.get(), write_, array, jint{0}, count);
      if (java->ExceptionCheck() == JNI_TRUE) return Pending(name_, "writing");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
    }
    return Status::Ok();
  }

  /// What was written has arrived when Java has closed the stream.
  Status Close() override { return Status::Ok(); }

  const std::string& name() const override { return name_; }

 private:
  const JavaReference stream_;
  const JavaReference array_;
  const jmethodID write_;
  const std::string name_;
};

}  // namespace

JavaReference::JavaReference(JNIEnv* java, jobject object) : object_(java->NewGlobalRef(object)) {
  java->GetJavaVM(&machine_);
}

JavaReference::~JavaReference() { java()->DeleteGlobalRef(object_); }

JNIEnv* JavaReference::java() const {
  void* java = nullptr;
  machine_->GetEnv(&java, JNI_VERSION_1_8);
  return static_cast<JNIEnv*>(java);
}

Result<std::unique_ptr<records::ByteSource>> OpenSource(JNIEnv* java, jobject stream,
                                                        std::string name) {
  const jmethodID read = MethodOf(java, stream, "read", "([BII)I");
  jbyteArray array = NewTransferArray(java);
  if (read == nullptr || array == nullptr) return Pending(name, "preparing to read");
  return std::unique_ptr<records::ByteSource>(
      new JavaSource(java, stream, array, read, std::move(name)));
}

Result<std::unique_ptr<records::ByteSink>> OpenSink(JNIEnv* java, jobject stream,
                                                    std::string name) {
  const jmethodID write = MethodOf(java, stream, "write", "([BII)V");
  jbyteArray array = NewTransferArray(java);
  if (write == nullptr || array == nullptr) return Pending(name, "preparing to write");
  return std::unique_ptr<records::ByteSink>(
      new JavaSink(java, stream, array, write, std::move(name)));
}

}  // namespace tfos::jvm
