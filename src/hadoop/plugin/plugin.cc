// The library that TensorFlow loads as a plugin for file systems: a FileSystem behind its C ABI.
//
// TensorFlow calls TF_InitPlugin when Python registers the library, once for each scheme, as
// tfos_hadoop_configure has said before. The file system is that of tfos._native, so that the
// process has one client and one Java; file_system_table.h is the border between the two.

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "base/thread/guarded.h"
#include "base/thread/mutex.h"
#include "hadoop/plugin/file_system_table.h"
#include "tensorflow/filesystem_abi.h"
#include "tensorflow/tf_code_of.h"
#include "tensorflow/tf_codes.h"

namespace tfos::hadoop {
namespace {

using tensorflow::TfFileStatistics;
using tensorflow::TfFilesystem;
using tensorflow::TfFilesystemOps;
using tensorflow::TfFilesystemPluginInfo;
using tensorflow::TfFilesystemPluginOps;
using tensorflow::TfRandomAccessFile;
using tensorflow::TfRandomAccessFileOps;
using tensorflow::TfWritableFile;
using tensorflow::TfWritableFileOps;

using SetStatus = void (*)(TF_Status*, int code, const char* message);

/// What the process has of this library. Never destroyed: threads of TensorFlow end after main.
struct Library {
  Mutex mutex;
  std::string scheme TFOS_GUARDED_BY(mutex) = "hdfs";
  tfos_file_system files{};  ///< Set before the first registration; does not change.
  SetStatus set_status = nullptr;
};

Library& TheLibrary() {
  static auto* const library = new Library;
  return *library;
}

/// A failure of the table's functions, or none: code and text.
class Outcome {
 public:
  explicit Outcome(int code = tensorflow::kTfOk) : code_(code) {}
  ~Outcome();
  Outcome(const Outcome&) = delete;
  Outcome& operator=(const Outcome&) = delete;

  bool ok() const { return code_ == tensorflow::kTfOk; }
  int code() const { return code_; }

  /// For a call of the table: `outcome.Take(files.stat(..., outcome.message()))`.
  char** message() { return &message_; }
  bool Take(int code) {
    code_ = code;
    return ok();
  }

  void Tell(TF_Status* status) const;

 private:
  int code_;
  char* message_ = nullptr;  ///< The table's.
};

Outcome::~Outcome() {
  if (message_ != nullptr) TheLibrary().files.free_message(message_);
}

void Outcome::Tell(TF_Status* status) const {
  const char* const text = message_ != nullptr ? message_ : "no memory for the reason";
  TheLibrary().set_status(status, code_, ok() ? "" : text);
}

const tfos_file_system& Files() { return TheLibrary().files; }

/// Runs `work`, which sets `status`, for TensorFlow: what it throws stays here.
template <typename Work>
void Guard(TF_Status* status, Work work) {
  Guarded(work, [&](ErrorKind kind, const char* what) {
    TheLibrary().set_status(status, tensorflow::TfCodeOf(kind), what);
  });
}

/// Calls a function of the table; whether it succeeded.
template <typename... Parameters, typename... Arguments>
bool Call(TF_Status* status, std::int32_t (*function)(Parameters...), Arguments... arguments) {
  Outcome outcome;
  outcome.Take(function(arguments..., outcome.message()));
  outcome.Tell(status);
  return outcome.ok();
}

// --- Files ---

void CleanUpReadable(TfRandomAccessFile* file) { Files().close_readable(file->file); }

std::int64_t Read(const TfRandomAccessFile* file, std::uint64_t offset, std::size_t bytes,
                  char* buffer, TF_Status* status) {
  std::uint64_t read = 0;
  if (!Call(status, Files().read, file->file, offset, buffer, std::uint64_t{bytes}, &read)) {
    return -1;
  }
  if (read < bytes) {
    TheLibrary().set_status(status, tensorflow::kTfOutOfRange, "the file ends here");
  }
  return static_cast<std::int64_t>(read);
}

void CleanUpWritable(TfWritableFile* file) { Files().close_writable(file->file); }

void AppendBytes(const TfWritableFile* file, const char* buffer, std::size_t bytes,
                 TF_Status* status) {
  Call(status, Files().write, file->file, buffer, std::uint64_t{bytes});
}

std::int64_t Tell(const TfWritableFile* file, TF_Status* status) {
  std::uint64_t position = 0;
  if (!Call(status, Files().tell, file->file, &position)) return -1;
  return static_cast<std::int64_t>(position);
}

void Flush(const TfWritableFile* file, TF_Status* status) {
  Call(status, Files().flush, file->file);
}

void Sync(const TfWritableFile* file, TF_Status* status) { Call(status, Files().sync, file->file); }

void Close(const TfWritableFile* file, TF_Status* status) {
  Call(status, Files().close, file->file);
}

// --- The file system ---

void Init(TfFilesystem* /*filesystem*/, TF_Status* status) { Outcome().Tell(status); }

void CleanUp(TfFilesystem* /*filesystem*/) {}

void OpenReadable(const TfFilesystem* /*filesystem*/, const char* path, TfRandomAccessFile* file,
                  TF_Status* status) {
  Call(status, Files().open, Files().context, path, &file->file);
}

void OpenWritable(const TfFilesystem* /*filesystem*/, const char* path, TfWritableFile* file,
                  TF_Status* status) {
  Call(status, Files().create, Files().context, path, &file->file);
}

void OpenAppendable(const TfFilesystem* /*filesystem*/, const char* path, TfWritableFile* file,
                    TF_Status* status) {
  Call(status, Files().append, Files().context, path, &file->file);
}

/// The directory that `path` lies in; "" for that of a root, such as hdfs://host.
std::string ParentOf(std::string path) {
  while (path.ends_with('/')) path.pop_back();
  const auto scheme = path.find("://");
  const auto authority = scheme == std::string::npos ? 0 : scheme + 3;
  const auto slash = path.find_last_of('/');
  if (slash == std::string::npos || slash < authority) return "";
  return path.substr(0, slash == path.find('/', authority) ? slash + 1 : slash);
}

/// Fails with `code` for a path.
void Refuse(TF_Status* status, int code, const char* what, const char* path) {
  const std::string text = std::string(what) + ": " + path;
  TheLibrary().set_status(status, code, text.c_str());
}

void CreateDirectory(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  Guard(status, [&] {
    tfos_file_info info{};
    Outcome there;
    if (there.Take(Files().stat(Files().context, path, &info, there.message()))) {
      return Refuse(status, tensorflow::kTfAlreadyExists, "make a directory that is there", path);
    }
    if (there.code() != tensorflow::kTfNotFound) return there.Tell(status);
    if (const std::string parent = ParentOf(path); !parent.empty()) {
      if (!Call(status, Files().stat, Files().context, parent.c_str(), &info)) return;
      if (info.is_directory == 0) {
        return Refuse(status, tensorflow::kTfFailedPrecondition,
                      "make a directory in what is not one", path);
      }
    }
    Call(status, Files().make_directories, Files().context, path);
  });
}

void CreateDirectories(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  Call(status, Files().make_directories, Files().context, path);
}

void DeleteFile(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  Guard(status, [&] {
    tfos_file_info info{};
    if (!Call(status, Files().stat, Files().context, path, &info)) return;
    if (info.is_directory != 0) {
      return Refuse(status, tensorflow::kTfFailedPrecondition, "delete a directory as a file",
                    path);
    }
    Call(status, Files().remove, Files().context, path, 0);
  });
}

void DeleteDirectory(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  Guard(status, [&] {
    tfos_file_info info{};
    if (!Call(status, Files().stat, Files().context, path, &info)) return;
    if (info.is_directory == 0) {
      return Refuse(status, tensorflow::kTfFailedPrecondition, "delete a file as a directory",
                    path);
    }
    Call(status, Files().remove, Files().context, path, 0);
  });
}

void DeleteRecursively(const TfFilesystem* /*filesystem*/, const char* path,
                       std::uint64_t* undeleted_files, std::uint64_t* undeleted_dirs,
                       TF_Status* status) {
  *undeleted_files = 0;
  *undeleted_dirs = Call(status, Files().remove, Files().context, path, 1) ? 0 : 1;
}

void Rename(const TfFilesystem* /*filesystem*/, const char* from, const char* to,
            TF_Status* status) {
  Call(status, Files().rename, Files().context, from, to);
}

void Exists(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  tfos_file_info info{};
  Call(status, Files().stat, Files().context, path, &info);
}

void Stat(const TfFilesystem* /*filesystem*/, const char* path, TfFileStatistics* to,
          TF_Status* status) {
  tfos_file_info info{};
  if (!Call(status, Files().stat, Files().context, path, &info)) return;
  *to = {.length = static_cast<std::int64_t>(info.bytes),
         .mtime_nsec = info.modified_ns,
         .is_directory = info.is_directory != 0};
}

bool IsDirectory(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  bool is_directory = false;
  Guard(status, [&] {
    tfos_file_info info{};
    if (!Call(status, Files().stat, Files().context, path, &info)) return;
    is_directory = info.is_directory != 0;
    if (!is_directory) {
      Refuse(status, tensorflow::kTfFailedPrecondition, "not a directory", path);
    }
  });
  return is_directory;
}

std::int64_t FileSize(const TfFilesystem* filesystem, const char* path, TF_Status* status) {
  TfFileStatistics statistics{.length = -1, .mtime_nsec = 0, .is_directory = false};
  Stat(filesystem, path, &statistics, status);
  return statistics.length;
}

/// Without this, TensorFlow would pass paths on without scheme and authority.
char* TranslateName(const TfFilesystem* /*filesystem*/, const char* uri) { return ::strdup(uri); }

/// Names that TensorFlow frees, one by one and then the array.
struct Names {
  char** list = nullptr;
  std::size_t count = 0;
  std::size_t room = 0;

  /// 0 when there is no memory.
  static std::int32_t Add(void* to, const char* name) {
    auto& names = *static_cast<Names*>(to);
    if (names.count == names.room) {
      const std::size_t room = names.room == 0 ? 16 : 2 * names.room;
      void* const list = std::realloc(names.list, room * sizeof(char*));
      if (list == nullptr) return 0;
      names.list = static_cast<char**>(list);
      names.room = room;
    }
    char* const copy = ::strdup(name);
    if (copy == nullptr) return 0;
    names.list[names.count++] = copy;
    return 1;
  }

  void Free() {
    for (std::size_t i = 0; i < count; ++i) std::free(list[i]);
    std::free(list);
  }
};

int Children(const TfFilesystem* /*filesystem*/, const char* path, char*** entries,
             TF_Status* status) {
  *entries = nullptr;
  Names names;
  if (!Call(status, Files().list, Files().context, path, &Names::Add, static_cast<void*>(&names))) {
    names.Free();
    return -1;
  }
  *entries = names.list;
  return static_cast<int>(names.count);
}

/// A copy that TensorFlow frees.
template <typename Ops>
Ops* Own(const Ops& ops) {
  return new (std::malloc(sizeof(Ops))) Ops(ops);
}

TfFilesystemPluginOps Describe(const std::string& scheme) {
  TfFilesystemPluginOps ops{};
  ops.scheme = ::strdup(scheme.c_str());
  ops.filesystem_ops_size = sizeof(TfFilesystemOps);
  ops.filesystem_ops = Own(TfFilesystemOps{
      .init = Init,
      .cleanup = CleanUp,
      .new_random_access_file = OpenReadable,
      .new_writable_file = OpenWritable,
      .new_appendable_file = OpenAppendable,
      .new_read_only_memory_region_from_file = nullptr,
      .create_dir = CreateDirectory,
      .recursively_create_dir = CreateDirectories,
      .delete_file = DeleteFile,
      .delete_dir = DeleteDirectory,
      .delete_recursively = DeleteRecursively,
      .rename_file = Rename,
      .copy_file = nullptr,
      .path_exists = Exists,
      .paths_exist = nullptr,
      .stat = Stat,
      .is_directory = IsDirectory,
      .get_file_size = FileSize,
      .translate_name = TranslateName,
      .get_children = Children,
      .get_matching_paths = nullptr,
      .flush_caches = nullptr,
      .transactions = {},
      .configuration = {},
  });
  ops.random_access_file_ops_size = sizeof(TfRandomAccessFileOps);
  ops.random_access_file_ops = Own(TfRandomAccessFileOps{.cleanup = CleanUpReadable, .read = Read});
  ops.writable_file_ops_size = sizeof(TfWritableFileOps);
  ops.writable_file_ops = Own(TfWritableFileOps{.cleanup = CleanUpWritable,
                                                .append = AppendBytes,
                                                .tell = Tell,
                                                .flush = Flush,
                                                .sync = Sync,
                                                .close = Close});
  return ops;
}

}  // namespace
}  // namespace tfos::hadoop

extern "C" {

/// Says which scheme the next registration is for, and what serves it: a table that is the same
/// each time. Returns null, or why the library can't work here (static).
__attribute__((visibility("default"))) const char* tfos_hadoop_configure(
    const char* scheme, const tfos_file_system* files) {
  if (files->version != TFOS_FILE_SYSTEM_VERSION) {
    return "tfos/_hadoop_files.so is of another version than tfos/_native: install tfos anew";
  }
  tfos::hadoop::Library& library = tfos::hadoop::TheLibrary();
  const tfos::MutexLock lock(library.mutex);
  void* framework = ::dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (framework == nullptr) return "TensorFlow is not loaded: import tensorflow first";
  library.set_status =
      reinterpret_cast<tfos::hadoop::SetStatus>(::dlsym(framework, "TF_SetStatus"));
  if (library.set_status == nullptr) return "this TensorFlow has no TF_SetStatus";
  const char* problem = nullptr;
  std::string copy;
  tfos::Guarded([&] { copy = scheme; },
                [&](tfos::ErrorKind, const char*) { problem = "no memory"; });
  if (problem == nullptr) library.scheme = std::move(copy);
  library.files = *files;
  return problem;
}

__attribute__((visibility("default"))) void TF_InitPlugin(
    tfos::tensorflow::TfFilesystemPluginInfo* info) {
  using tfos::tensorflow::TfFilesystemPluginOps;
  tfos::hadoop::Library& library = tfos::hadoop::TheLibrary();
  const tfos::MutexLock lock(library.mutex);
  info->plugin_memory_allocate = std::malloc;
  info->plugin_memory_free = std::free;
  info->num_schemes = 1;
  info->ops = tfos::hadoop::Own(tfos::hadoop::Describe(library.scheme));
}
}
