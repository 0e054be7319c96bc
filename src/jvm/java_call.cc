#include "jvm/java_call.h"

#include <algorithm>

#include "base/text/utf8.h"
#include "hadoop/java/java_string.h"

namespace tfos::jvm {
namespace {

const char* ClassFor(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kBadInput:
      return "java/lang/IllegalArgumentException";
    case ErrorKind::kUnsupported:
      return "java/lang/UnsupportedOperationException";
    case ErrorKind::kRetryLater:
    case ErrorKind::kReconnect:
    case ErrorKind::kNoResources:
    case ErrorKind::kInterrupted:
    case ErrorKind::kSuperseded:
    case ErrorKind::kBug:
      break;
  }
  return "java/lang/RuntimeException";
}

/// Messages may name anything, such as the key of a record, which may be binary.
std::string Printable(std::string text) {
  if (IsUtf8(text)) return text;
  std::ranges::replace_if(
      text, [](char byte) { return (byte & 0x80) != 0; }, '?');
  return text;
}

}  // namespace

void Throw(JNIEnv* java, const Status& status) {
  if (java->ExceptionCheck() == JNI_TRUE) return;
  jclass type = java->FindClass(ClassFor(status.kind()));
  if (type == nullptr) return;  // Then another exception is pending.
  jmethodID make = java->GetMethodID(type, "<init>", "(Ljava/lang/String;)V");
  jstring message = ToJava(java, Printable(status.ToString()));
  if (make == nullptr || message == nullptr) return;
  auto* exception = static_cast<jthrowable>(java->NewObject(type, make, message));
  if (exception != nullptr) java->Throw(exception);
}

void ThrowOutOfMemory(JNIEnv* java, const char* what) {
  if (java->ExceptionCheck() == JNI_TRUE) return;
  jclass type = java->FindClass("java/lang/OutOfMemoryError");
  if (type != nullptr) java->ThrowNew(type, what);
}

jstring ToJava(JNIEnv* java, std::string_view text) {
  const auto units = hadoop::ToUtf16(text);
  if (!units.ok()) {
    Throw(java, units.status());
    return nullptr;
  }
  return java->NewString(reinterpret_cast<const jchar*>(units->data()),
                         static_cast<jsize>(units->size()));
}

jlongArray ToJava(JNIEnv* java, std::int64_t first, std::span<const std::int64_t> numbers) {
  static_assert(sizeof(jlong) == sizeof(std::int64_t));
  jlongArray array = java->NewLongArray(static_cast<jsize>(numbers.size() + 1));
  if (array == nullptr) return nullptr;
  const auto front = static_cast<jlong>(first);
  java->SetLongArrayRegion(array, 0, 1, &front);
  java->SetLongArrayRegion(array, 1, static_cast<jsize>(numbers.size()),
                           reinterpret_cast<const jlong*>(numbers.data()));
  return array;
}

std::vector<std::int64_t> NumbersFrom(JNIEnv* java, jlongArray numbers) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(java->GetArrayLength(numbers)));
  java->GetLongArrayRegion(numbers, 0, static_cast<jsize>(result.size()),
                           reinterpret_cast<jlong*>(result.data()));
  return result;
}

std::string BytesFrom(JNIEnv* java, jbyteArray bytes) {
  std::string result(static_cast<std::size_t>(java->GetArrayLength(bytes)), '\0');
  java->GetByteArrayRegion(bytes, 0, static_cast<jsize>(result.size()),
                           reinterpret_cast<jbyte*>(result.data()));
  return result;
}

}  // namespace tfos::jvm
