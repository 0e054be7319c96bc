#include "hadoop/java/jvm.h"

#include <dlfcn.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/thread/thread.h"
#include "hadoop/java/java_error.h"
#include "hadoop/java/java_string.h"

namespace tfos::hadoop {
namespace {

constexpr jint kJniVersion = JNI_VERSION_1_8;
constexpr int kFrameReferences = 32;

using CreateJavaVm = jint (*)(JavaVM**, void**, void*);
using GetCreatedJavaVms = jint (*)(JavaVM**, jsize, jsize*);

/// Runs as a thread that called Java ends.
void Leave(void* value) {
  const std::unique_ptr<Jvm::Thread> thread(static_cast<Jvm::Thread*>(value));
  if (::getpid() != thread->process) return;
  if (thread->transfer != nullptr) thread->java->DeleteGlobalRef(thread->transfer);
  thread->machine->DetachCurrentThread();
}

std::string Join(const std::vector<std::string>& parts) {
  std::string joined;
  for (const std::string& part : parts) joined += (joined.empty() ? "" : ":") + part;
  return joined;
}

/// Runs on its own thread, so that no thread of the program becomes Java's main thread, and the
/// JVM's threads inherit a mask that leaves the program's signals to the program.
jint CreateOnThisThread(CreateJavaVm create, std::vector<std::string>& texts, JavaVM*& machine) {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  std::vector<JavaVMOption> options;
  for (std::string& text : texts) options.push_back({text.data(), nullptr});
  JavaVMInitArgs arguments{kJniVersion, static_cast<jint>(options.size()), options.data(),
                           JNI_FALSE};
  void* java = nullptr;
  const jint result = create(&machine, &java, &arguments);
  if (result == JNI_OK) machine->DetachCurrentThread();
  return result;
}

Result<JavaVM*> Create(CreateJavaVm create, const JvmOptions& options) {
  // -XX:-UsePerfData: no file in /tmp. slf4j: no lines about logging in the program's output.
  std::vector<std::string> texts = {"-Djava.class.path=" + Join(options.class_path),
                                    "-Xrs",
                                    "-XX:+UseSerialGC",
                                    "-XX:-UsePerfData",
                                    "-Dslf4j.internal.verbosity=ERROR",
                                    "-Xmx" + options.memory};
  texts.insert(texts.end(), options.more.begin(), options.more.end());

  struct sigaction pipe {};
  ::sigaction(SIGPIPE, nullptr, &pipe);
  JavaVM* machine = nullptr;
  jint result = JNI_ERR;
  TFOS_ASSIGN_OR_RETURN(std::thread thread, StartThread("tfos-start-java", [&] {
                          result = CreateOnThisThread(create, texts, machine);
                        }));
  thread.join();
  // The default is the one that Java can't live with: a closed connection would end the process.
  if ((pipe.sa_flags & SA_SIGINFO) != 0 || pipe.sa_handler != SIG_DFL) {
    ::sigaction(SIGPIPE, &pipe, nullptr);
  }
  if (result != JNI_OK) {
    return Status(
        ErrorKind::kBadInput,
        fmt::format("the Java virtual machine of {} did not start (JNI error {}); it says "
                    "why on standard error. Memory is set by TFOS_HADOOP_JVM_MEMORY "
                    "(now {}), options by TFOS_HADOOP_JVM_OPTIONS",
                    options.library, result, options.memory));
  }
  return machine;
}

std::string ToStringOf(JNIEnv* java, jthrowable exception) {
  jclass type = java->FindClass("java/lang/Throwable");
  jmethodID to_string = java->GetMethodID(type, "toString", "()Ljava/lang/String;");
  auto* text = static_cast<jstring>(java->CallObjectMethod(exception, to_string));
  if (java->ExceptionCheck() == JNI_TRUE) {
    java->ExceptionClear();
    return "a Java exception that can't be shown";
  }
  return TextOf(java, text);
}

jthrowable RootCauseOf(JNIEnv* java, jthrowable exception) {
  constexpr int kDeepest = 20;
  jclass type = java->FindClass("java/lang/Throwable");
  jmethodID get_cause = java->GetMethodID(type, "getCause", "()Ljava/lang/Throwable;");
  jthrowable root = nullptr;
  for (int depth = 0; depth < kDeepest; ++depth) {
    auto* cause = static_cast<jthrowable>(
        java->CallObjectMethod(root == nullptr ? exception : root, get_cause));
    if (java->ExceptionCheck() == JNI_TRUE) java->ExceptionClear();
    if (cause == nullptr) break;
    root = cause;
  }
  return root;
}

}  // namespace

Jvm::Jvm(JavaVM* machine, pthread_key_t key) : machine_(machine), key_(key), process_(::getpid()) {}

Result<std::unique_ptr<Jvm>> Jvm::Start(const JvmOptions& options) {
  // One that the process has loaded already, wherever it is from, comes first.
  void* library = ::dlopen("libjvm.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) library = ::dlopen(options.library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    return Status(ErrorKind::kBadInput, fmt::format("{} can't be loaded: {}; set JAVA_HOME to a "
                                                    "Java for this machine",
                                                    options.library, ::dlerror()));
  }
  auto created = reinterpret_cast<GetCreatedJavaVms>(::dlsym(library, "JNI_GetCreatedJavaVMs"));
  auto create = reinterpret_cast<CreateJavaVm>(::dlsym(library, "JNI_CreateJavaVM"));
  if (created == nullptr || create == nullptr) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("{} is not a Java virtual machine: set JAVA_HOME", options.library));
  }
  // HotSpot keeps half of what a failed start was given: a later one would lack its class path.
  static std::atomic<bool> spent = false;
  if (spent) {
    return Status(ErrorKind::kReconnect,
                  "a Java virtual machine could not be started in this process before, and can't "
                  "be any more: see the first failure, mend it, and start the process anew");
  }
  JavaVM* machine = nullptr;
  jsize count = 0;
  if (created(&machine, 1, &count) != JNI_OK || count == 0) {
    auto made = Create(create, options);
    // Without a thread to spare nothing was tried.
    spent = !made.ok() && made.status().kind() != ErrorKind::kNoResources;
    TFOS_ASSIGN_OR_RETURN(machine, std::move(made));
  }
  pthread_key_t key{};
  if (const int error = ::pthread_key_create(&key, &Leave); error != 0) {
    return Status::FromErrno(error, "reserve thread-local storage for Java");
  }
  return std::unique_ptr<Jvm>(new Jvm(machine, key));
}

Result<Jvm::Thread*> Jvm::Attach() {
  if (::getpid() != process_) {
    return Status(ErrorKind::kUnsupported,
                  "Hadoop's client can't be used in a forked child of a process that has used it: "
                  "its Java virtual machine stayed behind. Start the child afresh (multiprocessing "
                  "method `spawn`), or use hdfs:// first in the child");
  }
  if (auto* thread = static_cast<Thread*>(::pthread_getspecific(key_))) return thread;
  auto thread = std::make_unique<Thread>(Thread{.machine = machine_, .process = process_});
  void* java = nullptr;
  // A thread that Java knows already is not ours to detach.
  if (machine_->GetEnv(&java, kJniVersion) == JNI_OK) {
    thread->process = 0;
  } else if (const jint result = machine_->AttachCurrentThreadAsDaemon(&java, nullptr);
             result != JNI_OK) {
    return Status(ErrorKind::kRetryLater,
                  fmt::format("Java took no further thread (JNI error {}): use fewer threads, or "
                              "raise the limits on processes and memory",
                              result));
  }
  thread->java = static_cast<JNIEnv*>(java);
  if (const int error = ::pthread_setspecific(key_, thread.get()); error != 0) {
    return Status::FromErrno(error, "keep this thread's entry into Java");
  }
  return thread.release();
}

Result<jbyteArray> Jvm::Transfer(Thread& thread) {
  if (thread.transfer == nullptr) {
    jbyteArray array = thread.java->NewByteArray(static_cast<jsize>(kTransferBytes));
    if (array == nullptr) return TakeException(thread.java, "make room for data in Java");
    thread.transfer = static_cast<jbyteArray>(thread.java->NewGlobalRef(array));
    thread.java->DeleteLocalRef(array);
  }
  return thread.transfer;
}

Status TakeException(JNIEnv* java, std::string_view doing) {
  jthrowable exception = java->ExceptionOccurred();
  if (exception == nullptr) return Status::Ok();
  java->ExceptionClear();
  const LocalFrame frame(java);
  JavaException text{ToStringOf(java, exception), ""};
  if (jthrowable root = RootCauseOf(java, exception); root != nullptr) {
    text.root_cause = ToStringOf(java, root);
  }
  java->DeleteLocalRef(exception);
  return FromJava(text, doing);
}

std::string TextOf(JNIEnv* java, jstring text) {
  if (text == nullptr) return "";
  std::u16string units(static_cast<std::size_t>(java->GetStringLength(text)), u'\0');
  java->GetStringRegion(text, 0, static_cast<jsize>(units.size()),
                        reinterpret_cast<jchar*>(units.data()));
  return ToUtf8(units);
}

LocalFrame::LocalFrame(JNIEnv* java)
    : java_(java), pushed_(java->PushLocalFrame(kFrameReferences) == JNI_OK) {
  if (!pushed_) java_->ExceptionClear();  // Then they stay until the thread ends.
}

LocalFrame::~LocalFrame() {
  if (pushed_) java_->PopLocalFrame(nullptr);
}

}  // namespace tfos::hadoop
