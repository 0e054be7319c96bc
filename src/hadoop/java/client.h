#ifndef TFOS_HADOOP_JAVA_CLIENT_H_
#define TFOS_HADOOP_JAVA_CLIENT_H_

#include <jni.h>

#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "base/thread/mutex.h"
#include "hadoop/java/installation.h"
#include "hadoop/java/jvm.h"

namespace tfos::hadoop {

/// What of Hadoop's classes is used: found once, and kept by global references.
struct HadoopMethods {
  jclass path_class, string_class, system_class, view_class, checksum_class;
  jmethodID new_path;         // Path(String)
  jmethodID path_name;        // String Path.getName()
  jmethodID path_parent;      // Path Path.getParent()
  jmethodID path_uri;         // URI Path.toUri()
  jmethodID uri_path;         // String URI.getPath()
  jmethodID get_file_system;  // FileSystem Path.getFileSystem(Configuration)
  jmethodID open, create, append, rename, delete_path, get_status, list_status, make_directories;
  jmethodID create_file;     // FSDataOutputStreamBuilder FileSystem.createFile(Path)
  jmethodID builder_build;   // FSDataOutputStream FSDataOutputStreamBuilder.build()
  jmethodID resolve_path;    // Path FileSystem.resolvePath(Path)
  jmethodID make_qualified;  // Path FileSystem.makeQualified(Path)
  jmethodID system_uri;      // URI FileSystem.getCanonicalUri()
  jmethodID to_string;       // String Object.toString()
  jmethodID status_length, status_is_directory, status_modified, status_path;
  jmethodID input_read, input_read_at, input_seek, input_close;
  jmethodID output_write, output_flush, output_sync, output_position, output_close;
  jmethodID output_abort;       // AbortableResult FSDataOutputStream.abort(); null before 3.3.1
  jmethodID set_property;       // void Configuration.set(String, String)
  jmethodID property_sources;   // String[] Configuration.getPropertySources(String)
  jobjectArray rename_options;  // {OVERWRITE}
  jobject configuration;
};

/// One thread's call into Hadoop's client, with a frame for its local references.
///
/// Owner and lifetime: on the stack of the call. Threads: the one that made it. Errors: Java's, as
/// java_error.h has them.
class Call {
 public:
  Call(Jvm::Thread& thread, const HadoopMethods& methods)
      : thread_(thread), frame_(thread.java), methods_(methods) {}

  Jvm::Thread& thread() const { return thread_; }
  JNIEnv* java() const { return thread_.java; }
  const HadoopMethods& methods() const { return methods_; }

  /// A java String. Errors: EINVAL when it is not UTF-8.
  Result<jstring> String(std::string_view text) const;
  /// A Hadoop Path.
  Result<jobject> Path(std::string_view path) const;
  /// Hadoop's FileSystem for such a Path (Hadoop keeps them, by scheme, authority and user).
  Result<jobject> FileSystemOf(jobject path) const;

 private:
  Jvm::Thread& thread_;
  const LocalFrame frame_;
  const HadoopMethods& methods_;
};

/// Hadoop's Java client in this process. Costs nothing until the first `Begin`, which starts the
/// Java virtual machine, takes the user as Spark's executors do, and sets the properties of
/// TFOS_HADOOP_PROPERTIES over those of the configuration's files. Where neither says how often to
/// try an address that doesn't answer, it is less often than Hadoop would.
///
/// Owner and lifetime: its maker's; never to be destroyed once Java runs, as threads
/// detach themselves when they end. Threads: any. Errors: `Begin` names what is missing; the next
/// one tries again.
class Client {
 public:
  /// `spark_home`: where jars are looked for without SPARK_HOME; may be "".
  Client(EnvironmentLookup environment, std::string spark_home)
      : environment_(std::move(environment)), spark_home_(std::move(spark_home)) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  Result<std::unique_ptr<Call>> Begin();
  /// Whether it has begun, so that settings change nothing more.
  bool has_begun() const { return ready_; }
  Result<jbyteArray> Transfer(const Call& call) { return jvm_->Transfer(call.thread()); }

 private:
  Status Start() TFOS_REQUIRES(mutex_);
  Status StartJava() TFOS_REQUIRES(mutex_);
  Status SetProperties(JNIEnv* java, const HadoopMethods& methods) const;

  const EnvironmentLookup environment_;
  const std::string spark_home_;
  Mutex mutex_;                     ///< Held while it starts; others wait for it then.
  std::atomic<bool> ready_{false};  ///< It has started, and what is below changes no more.
  std::unique_ptr<Jvm> jvm_;
  std::unique_ptr<const HadoopMethods> methods_;
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_JAVA_CLIENT_H_
