#include "hadoop/java/client.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/format.h"
#include "hadoop/java/java_string.h"

namespace tfos::hadoop {
namespace {

/// Finds classes and methods; after the first failure it does nothing more.
class Finder {
 public:
  explicit Finder(JNIEnv* java) : java_(java) {}

  jclass Class(const char* name) {
    if (!status_.ok()) return nullptr;
    auto* found = java_->FindClass(name);
    return static_cast<jclass>(Kept(found, name));
  }

  jmethodID Method(jclass owner, const char* name, const char* signature) {
    if (!status_.ok()) return nullptr;
    jmethodID method = java_->GetMethodID(owner, name, signature);
    if (method == nullptr) Fail(name);
    return method;
  }

  /// Null where there is none.
  jmethodID MethodIfAny(jclass owner, const char* name, const char* signature) {
    if (!status_.ok()) return nullptr;
    jmethodID method = java_->GetMethodID(owner, name, signature);
    if (method == nullptr) java_->ExceptionClear();
    return method;
  }

  jobject New(jclass type) {
    if (!status_.ok()) return nullptr;
    jmethodID make = Method(type, "<init>", "()V");
    return status_.ok() ? Kept(java_->NewObject(type, make), "read the configuration") : nullptr;
  }

  jobjectArray OverwriteOption() {
    constexpr const char* kOption = "org/apache/hadoop/fs/Options$Rename";
    jclass type = Class(kOption);
    if (!status_.ok()) return nullptr;
    jfieldID field =
        java_->GetStaticFieldID(type, "OVERWRITE", "Lorg/apache/hadoop/fs/Options$Rename;");
    if (field == nullptr) {
      Fail(kOption);
      return nullptr;
    }
    jobject option = java_->GetStaticObjectField(type, field);
    return static_cast<jobjectArray>(Kept(java_->NewObjectArray(1, type, option), kOption));
  }

  const Status& status() const { return status_; }

 private:
  jobject Kept(jobject local, std::string_view what) {
    if (local == nullptr) {
      Fail(what);
      return nullptr;
    }
    jobject global = java_->NewGlobalRef(local);
    java_->DeleteLocalRef(local);
    return global;
  }

  void Fail(std::string_view what) {
    status_ = TakeException(java_, fmt::format("find {} of Hadoop's client", what));
    if (status_.ok()) status_ = Status(ErrorKind::kBadInput, fmt::format("there is no {}", what));
  }

  JNIEnv* const java_;
  Status status_;
};

Result<std::unique_ptr<const HadoopMethods>> FindMethods(JNIEnv* java) {
  Finder find(java);
  auto m = std::make_unique<HadoopMethods>();
  m->string_class = find.Class("java/lang/String");
  jclass path = m->path_class = find.Class("org/apache/hadoop/fs/Path");
  m->new_path = find.Method(path, "<init>", "(Ljava/lang/String;)V");
  m->path_name = find.Method(path, "getName", "()Ljava/lang/String;");
  m->get_file_system =
      find.Method(path, "getFileSystem",
                  "(Lorg/apache/hadoop/conf/Configuration;)Lorg/apache/hadoop/fs/FileSystem;");

  m->path_parent = find.Method(path, "getParent", "()Lorg/apache/hadoop/fs/Path;");
  m->path_uri = find.Method(path, "toUri", "()Ljava/net/URI;");
  m->uri_path = find.Method(find.Class("java/net/URI"), "getPath", "()Ljava/lang/String;");
  m->to_string = find.Method(find.Class("java/lang/Object"), "toString", "()Ljava/lang/String;");

  jclass system = m->system_class = find.Class("org/apache/hadoop/fs/FileSystem");
  m->view_class = find.Class("org/apache/hadoop/fs/viewfs/ViewFileSystem");
  m->checksum_class = find.Class("org/apache/hadoop/fs/ChecksumFileSystem");
  m->resolve_path = find.Method(system, "resolvePath",
                                "(Lorg/apache/hadoop/fs/Path;)Lorg/apache/hadoop/fs/Path;");
  m->make_qualified = find.Method(system, "makeQualified",
                                  "(Lorg/apache/hadoop/fs/Path;)Lorg/apache/hadoop/fs/Path;");
  // Protected in Java, too. With the port, whether the path names it or not.
  m->system_uri = find.Method(system, "getCanonicalUri", "()Ljava/net/URI;");
  m->open = find.Method(system, "open",
                        "(Lorg/apache/hadoop/fs/Path;)Lorg/apache/hadoop/fs/FSDataInputStream;");
  constexpr const char* kToOutput =
      "(Lorg/apache/hadoop/fs/Path;)Lorg/apache/hadoop/fs/FSDataOutputStream;";
  m->create = find.Method(system, "create", kToOutput);
  m->append = find.Method(system, "append", kToOutput);
  m->create_file =
      find.Method(system, "createFile",
                  "(Lorg/apache/hadoop/fs/Path;)Lorg/apache/hadoop/fs/FSDataOutputStreamBuilder;");
  m->builder_build = find.Method(find.Class("org/apache/hadoop/fs/FSDataOutputStreamBuilder"),
                                 "build", "()Lorg/apache/hadoop/fs/FSDataOutputStream;");
  // The one that replaces its target is protected in Java; it is what FileContext calls.
  m->rename = find.Method(system, "rename",
                          "(Lorg/apache/hadoop/fs/Path;Lorg/apache/hadoop/fs/Path;"
                          "[Lorg/apache/hadoop/fs/Options$Rename;)V");
  m->delete_path = find.Method(system, "delete", "(Lorg/apache/hadoop/fs/Path;Z)Z");
  m->get_status = find.Method(system, "getFileStatus",
                              "(Lorg/apache/hadoop/fs/Path;)Lorg/apache/hadoop/fs/FileStatus;");
  m->list_status = find.Method(system, "listStatus",
                               "(Lorg/apache/hadoop/fs/Path;)[Lorg/apache/hadoop/fs/FileStatus;");
  m->make_directories = find.Method(system, "mkdirs", "(Lorg/apache/hadoop/fs/Path;)Z");

  jclass status = find.Class("org/apache/hadoop/fs/FileStatus");
  m->status_length = find.Method(status, "getLen", "()J");
  m->status_is_directory = find.Method(status, "isDirectory", "()Z");
  m->status_modified = find.Method(status, "getModificationTime", "()J");
  m->status_path = find.Method(status, "getPath", "()Lorg/apache/hadoop/fs/Path;");

  jclass input = find.Class("org/apache/hadoop/fs/FSDataInputStream");
  m->input_read = find.Method(input, "read", "([BII)I");
  m->input_read_at = find.Method(input, "read", "(J[BII)I");
  m->input_seek = find.Method(input, "seek", "(J)V");
  m->input_close = find.Method(input, "close", "()V");

  jclass output = find.Class("org/apache/hadoop/fs/FSDataOutputStream");
  m->output_write = find.Method(output, "write", "([BII)V");
  m->output_flush = find.Method(output, "hflush", "()V");
  m->output_sync = find.Method(output, "hsync", "()V");
  m->output_position = find.Method(output, "getPos", "()J");
  m->output_close = find.Method(output, "close", "()V");
  m->output_abort =
      find.MethodIfAny(output, "abort", "()Lorg/apache/hadoop/fs/Abortable$AbortableResult;");

  m->rename_options = find.OverwriteOption();
  jclass configuration = find.Class("org/apache/hadoop/conf/Configuration");
  m->set_property = find.Method(configuration, "set", "(Ljava/lang/String;Ljava/lang/String;)V");
  m->property_sources =
      find.Method(configuration, "getPropertySources", "(Ljava/lang/String;)[Ljava/lang/String;");
  m->configuration = find.New(configuration);
  if (!find.status().ok()) return find.status();
  return std::unique_ptr<const HadoopMethods>(std::move(m));
}

/// Tries again with a NameNode's address that drops what is sent to it. Hadoop's own default of 45,
/// of 20 s each, would hold a program, which Ctrl-C can't reach in the meantime, for a quarter of
/// an hour.
constexpr std::string_view kTimeoutRetriesName = "ipc.client.connect.max.retries.on.timeouts";
constexpr std::string_view kTimeoutRetries = "2";

/// As -Xmx takes it: digits and one of k, m and g.
bool IsMemory(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const auto end = text.find_first_not_of(kDigits);
  if (end == 0 || end == std::string_view::npos) return false;
  return end + 1 == text.size() &&
         std::string_view("kKmMgG").find(text[end]) != std::string_view::npos;
}

Result<jstring> MakeString(JNIEnv* java, std::string_view text) {
  TFOS_ASSIGN_OR_RETURN(const std::u16string units, ToUtf16(text));
  jstring string = java->NewString(reinterpret_cast<const jchar*>(units.data()),
                                   static_cast<jsize>(units.size()));
  if (string == nullptr) return TakeException(java, "make a string in Java");
  return string;
}

Status SetProperty(JNIEnv* java, const HadoopMethods& methods, std::string_view name,
                   std::string_view value) {
  TFOS_ASSIGN_OR_RETURN(jstring java_name, MakeString(java, name));
  TFOS_ASSIGN_OR_RETURN(jstring java_value, MakeString(java, value));
  java->CallVoidMethod(methods.configuration, methods.set_property, java_name, java_value);
  return TakeException(java, fmt::format("set Hadoop's property {}", name));
}

/// Whether a property is as Hadoop's own core-default.xml has it, or nowhere.
Result<bool> IsDefault(JNIEnv* java, const HadoopMethods& methods, std::string_view name) {
  // The first use of this class adds hdfs-site.xml to what every configuration is read from.
  java->FindClass("org/apache/hadoop/hdfs/HdfsConfiguration");
  TFOS_RETURN_IF_ERROR(TakeException(java, "read the configuration of HDFS"));
  TFOS_ASSIGN_OR_RETURN(jstring java_name, MakeString(java, name));
  auto* const sources = static_cast<jobjectArray>(
      java->CallObjectMethod(methods.configuration, methods.property_sources, java_name));
  TFOS_RETURN_IF_ERROR(TakeException(java, fmt::format("look where {} is set", name)));
  if (sources == nullptr) return true;
  const jsize count = java->GetArrayLength(sources);
  if (count == 0) return true;
  auto* const last = static_cast<jstring>(java->GetObjectArrayElement(sources, count - 1));
  return TextOf(java, last).ends_with("core-default.xml");
}

std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words;
  std::string word;
  for (const char c : text + ' ') {
    if (c != ' ') {
      word += c;
    } else if (!word.empty()) {
      words.push_back(std::exchange(word, {}));
    }
  }
  return words;
}

}  // namespace

Result<jstring> Call::String(std::string_view text) const { return MakeString(java(), text); }

Result<jobject> Call::Path(std::string_view path) const {
  // Hadoop takes hdfs://host for a path without a name; to everybody else it is the root.
  const auto scheme = path.find("://");
  const bool is_root =
      scheme != std::string_view::npos && path.find('/', scheme + 3) == std::string_view::npos;
  TFOS_ASSIGN_OR_RETURN(jstring text,
                        String(is_root ? fmt::format("{}/", path) : std::string(path)));
  jobject made = java()->NewObject(methods_.path_class, methods_.new_path, text);
  if (made == nullptr) return TakeException(java(), fmt::format("understand the path {}", path));
  return made;
}

Result<jobject> Call::FileSystemOf(jobject path) const {
  jobject system = java()->CallObjectMethod(path, methods_.get_file_system, methods_.configuration);
  if (system == nullptr) return TakeException(java(), "find its file system");
  return system;
}

Result<std::unique_ptr<Call>> Client::Begin() {
  if (!ready_.load(std::memory_order_acquire)) {
    const MutexLock lock(mutex_);
    if (methods_ == nullptr) {
      TFOS_RETURN_IF_ERROR(Start().Annotate("start Hadoop's client"));
    }
    ready_.store(true, std::memory_order_release);
  }
  TFOS_ASSIGN_OR_RETURN(Jvm::Thread* const thread, jvm_->Attach());
  return std::make_unique<Call>(*thread, *methods_);
}

Status Client::Start() {
  if (jvm_ == nullptr) TFOS_RETURN_IF_ERROR(StartJava());
  TFOS_ASSIGN_OR_RETURN(Jvm::Thread* const thread, jvm_->Attach());
  const LocalFrame frame(thread->java);
  TFOS_ASSIGN_OR_RETURN(auto methods, FindMethods(thread->java));
  TFOS_RETURN_IF_ERROR(SetProperties(thread->java, *methods));
  methods_ = std::move(methods);
  return Status::Ok();
}

Status Client::StartJava() {
  JvmOptions options;
  TFOS_ASSIGN_OR_RETURN(options.library, FindJvmLibrary(environment_));
  TFOS_ASSIGN_OR_RETURN(options.class_path, FindClassPath(environment_, spark_home_));
  if (const auto memory = environment_("TFOS_HADOOP_JVM_MEMORY"); memory && !memory->empty()) {
    if (!IsMemory(*memory)) {
      return Status(
          ErrorKind::kBadInput,
          fmt::format("TFOS_HADOOP_JVM_MEMORY={} is not a size such as 256m or 1g", *memory));
    }
    options.memory = *memory;
  }
  // Spark's executors act as the application's user, whoever runs the worker. Hadoop looks for
  // such a property where its own variable is not set.
  const auto user = environment_("SPARK_USER");
  if (user && !user->empty()) options.more.push_back("-DHADOOP_USER_NAME=" + *user);
  for (std::string& word : Words(environment_("TFOS_HADOOP_JVM_OPTIONS").value_or(""))) {
    options.more.push_back(std::move(word));
  }
  TFOS_ASSIGN_OR_RETURN(jvm_, Jvm::Start(options));
  return Status::Ok();
}

Status Client::SetProperties(JNIEnv* java, const HadoopMethods& methods) const {
  TFOS_ASSIGN_OR_RETURN(const bool is_default, IsDefault(java, methods, kTimeoutRetriesName));
  if (is_default) {
    TFOS_RETURN_IF_ERROR(SetProperty(java, methods, kTimeoutRetriesName, kTimeoutRetries));
  }
  const auto text = environment_("TFOS_HADOOP_PROPERTIES");
  if (!text || text->empty()) return Status::Ok();
  const auto properties = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  const auto is_text = [](const nlohmann::json& value) { return value.is_string(); };
  if (!properties.is_object() || !std::ranges::all_of(properties, is_text)) {
    // What it holds may be secret.
    return Status(ErrorKind::kBadInput,
                  "TFOS_HADOOP_PROPERTIES is not a JSON object of texts, as in "
                  R"({"dfs.replication": "1"})");
  }
  for (const auto& [name, value] : properties.items()) {
    TFOS_RETURN_IF_ERROR(SetProperty(java, methods, name, value.get<std::string>()));
  }
  return Status::Ok();
}

}  // namespace tfos::hadoop
