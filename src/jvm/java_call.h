#ifndef TFOS_JVM_JAVA_CALL_H_
#define TFOS_JVM_JAVA_CALL_H_

#include <jni.h>

#include <cstdint>
#include <exception>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tfos/status.h"

namespace tfos::jvm {

// What native methods need: the way in, the way out, and values of both sides. All of it is for the
// thread that Java called with.

/// Makes a failure the exception of the method that Java called:
///   kBadInput     IllegalArgumentException
///   kUnsupported  UnsupportedOperationException
///   others        RuntimeException
/// An exception that is pending already, such as a stream's IOException, is what failed first and
/// stays.
void Throw(JNIEnv* java, const Status& status);
void ThrowOutOfMemory(JNIEnv* java, const char* what);

/// The body of a native method: `work` returns a Status or a Result, whose value the method
/// returns; a failure, C++ exceptions included, becomes Java's, and the method returns zero.
template <typename Work>
auto Enter(JNIEnv* java, Work work) {
  using Outcome = std::invoke_result_t<Work>;
  Status failure;
  try {
    Outcome outcome = work();
    if constexpr (std::is_same_v<Outcome, Status>) {
      if (!outcome.ok()) Throw(java, outcome);
      return;
    } else {
      if (outcome.ok()) return std::move(outcome).value();
      failure = outcome.status();
    }
  } catch (const std::bad_alloc&) {
    ThrowOutOfMemory(java,
                     "memory outside of Java's heap: give executors more of "
                     "spark.executor.memoryOverhead");
  } catch (const std::exception& error) {
    failure = Status(ErrorKind::kBug, error.what());
  }
  if (!failure.ok()) Throw(java, failure);
  if constexpr (!std::is_same_v<Outcome, Status>) {
    return std::decay_t<decltype(std::declval<Outcome>().value())>{};
  }
}

/// Null, with an exception pending, when Java has no memory or `text` is not UTF-8.
jstring ToJava(JNIEnv* java, std::string_view text);
/// [first, numbers...]. Null, with an exception pending, when Java has no memory.
jlongArray ToJava(JNIEnv* java, std::int64_t first, std::span<const std::int64_t> numbers);

std::vector<std::int64_t> NumbersFrom(JNIEnv* java, jlongArray numbers);
std::string BytesFrom(JNIEnv* java, jbyteArray bytes);

/// What Java keeps of an object of ours: it gives the number back to `Release`, once.
template <typename T>
jlong Hold(T object) {
  return static_cast<jlong>(reinterpret_cast<std::uintptr_t>(new T(std::move(object))));
}

template <typename T>
T& Held(jlong handle) {
  return *reinterpret_cast<T*>(static_cast<std::uintptr_t>(handle));  // NOLINT
}

template <typename T>
void Release(jlong handle) {
  delete &Held<T>(handle);
}

}  // namespace tfos::jvm

#endif  // TFOS_JVM_JAVA_CALL_H_
