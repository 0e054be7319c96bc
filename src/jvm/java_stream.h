#ifndef TFOS_JVM_JAVA_STREAM_H_
#define TFOS_JVM_JAVA_STREAM_H_

#include <jni.h>

#include <cstddef>
#include <memory>
#include <string>

#include "records/framing/byte_stream.h"
#include "tfos/status.h"

namespace tfos::jvm {

/// Something of Java's that outlives the call that gave it.
///
/// Owner and lifetime: keeps it from being collected. Threads: those that Java called with.
class JavaReference {
 public:
  JavaReference(JNIEnv* java, jobject object);
  ~JavaReference();
  JavaReference(const JavaReference&) = delete;
  JavaReference& operator=(const JavaReference&) = delete;

  jobject get() const { return object_; }
  /// The JNI environment of the thread that asks.
  JNIEnv* java() const;

 private:
  JavaVM* machine_ = nullptr;
  const jobject object_;
};

// A java.io.InputStream to read from and a java.io.OutputStream to write to.
//
// Owner and lifetime: keep the stream; it is Java that closes it. Threads: one at a time, which
// Java called with. Errors: leave the exception of the stream pending, which Throw knows of.

Result<std::unique_ptr<records::ByteSource>> OpenSource(JNIEnv* java, jobject stream,
                                                        std::string name);
Result<std::unique_ptr<records::ByteSink>> OpenSink(JNIEnv* java, jobject stream, std::string name);

}  // namespace tfos::jvm

#endif  // TFOS_JVM_JAVA_STREAM_H_
