#ifndef TFOS_HADOOP_JAVA_JVM_H_
#define TFOS_HADOOP_JAVA_JVM_H_

#include <jni.h>
#include <pthread.h>
#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tfos/status.h"

namespace tfos::hadoop {

struct JvmOptions {
  std::string library;                  ///< Path of libjvm.so.
  std::vector<std::string> class_path;  ///< Files and directories, in order.
  /// Most memory of Java objects, as -Xmx has it. Costs address space; used as needed.
  std::string memory = "256m";
  std::vector<std::string> more;  ///< Further options of the JVM; these win.
};

/// The Java virtual machine of this process, which can have but one, and which never ends before
/// the process does.
///
/// Owner and lifetime: its starter's; must outlive all threads that called `Attach`, so
/// it is best never destroyed. Threads: any. Not usable in a forked child: `Attach` fails there.
/// Errors: say what is missing; a start that failed may be tried again, unless it was Java itself
/// that refused (its options are wrong, or there is no memory): that takes a new process.
///
/// It is started with -Xrs, as SIGINT and SIGTERM are not Java's here, and takes none of the
/// process's signals on its threads.
class Jvm {
 public:
  /// Bytes of the Java array that each attached thread has for moving data.
  static constexpr std::size_t kTransferBytes = std::size_t{256} << 10;

  /// What a thread needs for calling Java.
  struct Thread {
    JNIEnv* java = nullptr;
    jbyteArray transfer = nullptr;  ///< A global reference; null until `Transfer` made it.
    JavaVM* machine = nullptr;
    pid_t process = 0;
  };

  /// Starts one, or uses what is in the process already (its class path is as it is then).
  static Result<std::unique_ptr<Jvm>> Start(const JvmOptions& options);

  Jvm(const Jvm&) = delete;
  Jvm& operator=(const Jvm&) = delete;

  /// This thread's entry into Java, until the thread ends; cheap from the second time on.
  Result<Thread*> Attach();
  /// This thread's array of `kTransferBytes`.
  Result<jbyteArray> Transfer(Thread& thread);

 private:
  Jvm(JavaVM* machine, pthread_key_t key);

  JavaVM* const machine_;
  const pthread_key_t key_;
  const pid_t process_;
};

/// Takes the pending exception, if there is one, as the failure of `doing`.
Status TakeException(JNIEnv* java, std::string_view doing);

/// The text of a Java string; "" for null.
std::string TextOf(JNIEnv* java, jstring text);

/// All local references made while it lives go with it.
class LocalFrame {
 public:
  explicit LocalFrame(JNIEnv* java);
  ~LocalFrame();
  LocalFrame(const LocalFrame&) = delete;
  LocalFrame& operator=(const LocalFrame&) = delete;

 private:
  JNIEnv* const java_;
  const bool pushed_;
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_JAVA_JVM_H_
