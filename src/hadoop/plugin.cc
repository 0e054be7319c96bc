// The library that TensorFlow loads as a plugin for file systems: a FileSystem behind its C ABI.
//
// TensorFlow calls TF_InitPlugin when Python registers the library, once for each scheme, as
// tfos_hadoop_configure has said before. The file system is that of tfos._native, built with the
// same compiler from the same sources, so that the process has one client and one Java.

#include <dlfcn.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "base/format.h"
#include "base/mutex.h"
#include "hadoop/file_system.h"
#include "tensorflow/filesystem_abi.h"
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
  FileSystem* files = nullptr;  ///< Set before the first registration; does not change.
  SetStatus set_status = nullptr;

  FileSystem& Files() const { return *files; }
};

Library& TheLibrary() {
  static auto* const library = new Library;
  return *library;
}

int CodeOf(const Status& status) {
  switch (status.code().value()) {
    case 0:
      break;
    case ENOENT:
      return tensorflow::kTfNotFound;
    case EEXIST:
      return tensorflow::kTfAlreadyExists;
    case EACCES:
      return tensorflow::kTfPermissionDenied;
    case EISDIR:
    case ENOTDIR:
    case ENOTEMPTY:
    case EBUSY:
    case EBADF:
      return tensorflow::kTfFailedPrecondition;
    case EINVAL:
      return tensorflow::kTfInvalidArgument;
    case EDQUOT:
    case ENOSPC:
    case ENOMEM:
      return tensorflow::kTfResourceExhausted;
    case ETIMEDOUT:
      return tensorflow::kTfDeadlineExceeded;
    case EOPNOTSUPP:
    case EXDEV:  // As TensorFlow has it for files of this host.
      return tensorflow::kTfUnimplemented;
    case EAGAIN:
    case ECONNREFUSED:
    case EHOSTUNREACH:
      return tensorflow::kTfUnavailable;
    default:
      return tensorflow::kTfUnknown;
  }
  switch (status.kind()) {
    case ErrorKind::kRetryLater:
    case ErrorKind::kReconnect:
      return tensorflow::kTfUnavailable;
    case ErrorKind::kNoResources:
      return tensorflow::kTfResourceExhausted;
    case ErrorKind::kInterrupted:
      return tensorflow::kTfCancelled;
    case ErrorKind::kUnsupported:
    case ErrorKind::kBadInput:
      return tensorflow::kTfFailedPrecondition;
    case ErrorKind::kSuperseded:
    case ErrorKind::kBug:
      return tensorflow::kTfInternal;
  }
  return tensorflow::kTfUnknown;
}

void Say(TF_Status* to, const Status& status) {
  if (status.ok()) {
    TheLibrary().set_status(to, tensorflow::kTfOk, "");
  } else {
    TheLibrary().set_status(to, CodeOf(status), status.ToString().c_str());
  }
}

/// Runs `work` (giving a Status) for TensorFlow: what it throws stays here.
template <typename Work>
void Guard(TF_Status* status, Work work) {
  try {
    Say(status, work());
  } catch (const std::exception& error) {
    TheLibrary().set_status(status, tensorflow::kTfResourceExhausted, error.what());
  }
}

char* Copy(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

// --- Files ---

void CleanUpReadable(TfRandomAccessFile* file) { delete static_cast<ReadableFile*>(file->file); }

std::int64_t Read(const TfRandomAccessFile* file, std::uint64_t offset, std::size_t bytes,
                  char* buffer, TF_Status* status) {
  std::int64_t count = -1;
  Guard(status, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const std::size_t read,
                          static_cast<ReadableFile*>(file->file)
                              ->Read(offset, {reinterpret_cast<std::byte*>(buffer), bytes}));
    count = static_cast<std::int64_t>(read);
    return Status::Ok();
  });
  if (count >= 0 && static_cast<std::size_t>(count) < bytes) {
    TheLibrary().set_status(status, tensorflow::kTfOutOfRange, "the file ends here");
  }
  return count;
}

WritableFile& Writable(const TfWritableFile* file) {
  return *static_cast<WritableFile*>(file->file);
}

void CleanUpWritable(TfWritableFile* file) { delete static_cast<WritableFile*>(file->file); }

void AppendBytes(const TfWritableFile* file, const char* buffer, std::size_t bytes,
                 TF_Status* status) {
  Guard(status, [&] {
    return Writable(file).Append({reinterpret_cast<const std::byte*>(buffer), bytes});
  });
}

std::int64_t Tell(const TfWritableFile* file, TF_Status* status) {
  std::int64_t position = -1;
  Guard(status, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t told, Writable(file).Tell());
    position = static_cast<std::int64_t>(told);
    return Status::Ok();
  });
  return position;
}

void Flush(const TfWritableFile* file, TF_Status* status) {
  Guard(status, [&] { return Writable(file).Flush(); });
}

void Sync(const TfWritableFile* file, TF_Status* status) {
  Guard(status, [&] { return Writable(file).Sync(); });
}

void Close(const TfWritableFile* file, TF_Status* status) {
  Guard(status, [&] { return Writable(file).Close(); });
}

// --- The file system ---

void Init(TfFilesystem* /*filesystem*/, TF_Status* status) { Say(status, Status::Ok()); }

void CleanUp(TfFilesystem* /*filesystem*/) {}

void OpenReadable(const TfFilesystem* /*filesystem*/, const char* path, TfRandomAccessFile* file,
                  TF_Status* status) {
  Guard(status, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(auto opened, TheLibrary().Files().Open(path));
    file->file = opened.release();
    return Status::Ok();
  });
}

void OpenWritable(const TfFilesystem* /*filesystem*/, const char* path, TfWritableFile* file,
                  TF_Status* status) {
  Guard(status, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(auto opened, TheLibrary().Files().Create(path));
    file->file = opened.release();
    return Status::Ok();
  });
}

void OpenAppendable(const TfFilesystem* /*filesystem*/, const char* path, TfWritableFile* file,
                    TF_Status* status) {
  Guard(status, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(auto opened, TheLibrary().Files().Append(path));
    file->file = opened.release();
    return Status::Ok();
  });
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

void CreateDirectory(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  Guard(status, [&]() -> Status {
    FileSystem& files = TheLibrary().Files();
    const auto there = files.Stat(path);
    if (there.ok()) return Status::FromErrno(EEXIST, fmt::format("make the directory {}", path));
    if (there.status().code().value() != ENOENT) return there.status();
    if (const std::string parent = ParentOf(path); !parent.empty()) {
      TFOS_ASSIGN_OR_RETURN(const FileInfo above, files.Stat(parent));
      if (!above.is_directory) {
        return Status::FromErrno(ENOTDIR, fmt::format("make the directory {}", path));
      }
    }
    return files.MakeDirectories(path);
  });
}

void CreateDirectories(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  Guard(status, [&] { return TheLibrary().Files().MakeDirectories(path); });
}

void DeleteFile(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  Guard(status, [&]() -> Status {
    FileSystem& files = TheLibrary().Files();
    TFOS_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(path));
    if (info.is_directory)
      return Status::FromErrno(EISDIR, fmt::format("delete the file {}", path));
    return files.Delete(path, false);
  });
}

void DeleteDirectory(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  Guard(status, [&]() -> Status {
    FileSystem& files = TheLibrary().Files();
    TFOS_ASSIGN_OR_RETURN(const FileInfo info, files.Stat(path));
    if (!info.is_directory) {
      return Status::FromErrno(ENOTDIR, fmt::format("delete the directory {}", path));
    }
    return files.Delete(path, false);
  });
}

void DeleteRecursively(const TfFilesystem* /*filesystem*/, const char* path,
                       std::uint64_t* undeleted_files, std::uint64_t* undeleted_dirs,
                       TF_Status* status) {
  *undeleted_files = 0;
  *undeleted_dirs = 0;
  Guard(status, [&]() -> Status {
    Status deleted = TheLibrary().Files().Delete(path, true);
    if (!deleted.ok()) *undeleted_dirs = 1;
    return deleted;
  });
}

void Rename(const TfFilesystem* /*filesystem*/, const char* from, const char* to,
            TF_Status* status) {
  Guard(status, [&] { return TheLibrary().Files().Rename(from, to); });
}

void Exists(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  Guard(status, [&] { return TheLibrary().Files().Stat(path).status(); });
}

void Stat(const TfFilesystem* /*filesystem*/, const char* path, TfFileStatistics* to,
          TF_Status* status) {
  Guard(status, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const FileInfo info, TheLibrary().Files().Stat(path));
    *to = {.length = static_cast<std::int64_t>(info.bytes),
           .mtime_nsec = info.modified_ns,
           .is_directory = info.is_directory};
    return Status::Ok();
  });
}

bool IsDirectory(const TfFilesystem* /*filesystem*/, const char* path, TF_Status* status) {
  bool is_directory = false;
  Guard(status, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const FileInfo info, TheLibrary().Files().Stat(path));
    is_directory = info.is_directory;
    if (is_directory) return Status::Ok();
    return Status::FromErrno(ENOTDIR, path);
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

int Children(const TfFilesystem* /*filesystem*/, const char* path, char*** entries,
             TF_Status* status) {
  int count = -1;
  *entries = nullptr;
  Guard(status, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const auto found, TheLibrary().Files().List(path));
    auto** list = static_cast<char**>(std::calloc(found.size() + 1, sizeof(char*)));
    if (list == nullptr) throw std::bad_alloc();
    for (std::size_t i = 0; i < found.size(); ++i) list[i] = Copy(found[i].name);
    *entries = list;
    count = static_cast<int>(found.size());
    return Status::Ok();
  });
  return count;
}

/// A copy that TensorFlow frees.
template <typename Ops>
Ops* Own(const Ops& ops) {
  return new (std::malloc(sizeof(Ops))) Ops(ops);
}

TfFilesystemPluginOps Describe(const std::string& scheme) {
  TfFilesystemPluginOps ops{};
  ops.scheme = Copy(scheme);
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

/// Says which scheme the next registration is for, and who serves it: a tfos::hadoop::FileSystem,
/// the same each time, that lasts as long as the process. Returns null, or why the library can't
/// work here (static).
__attribute__((visibility("default"))) const char* tfos_hadoop_configure(const char* scheme,
                                                                         void* files) {
  tfos::hadoop::Library& library = tfos::hadoop::TheLibrary();
  const tfos::MutexLock lock(library.mutex);
  void* framework = ::dlopen("libtensorflow_framework.so.2", RTLD_LAZY | RTLD_NOLOAD);
  if (framework == nullptr) return "TensorFlow is not loaded: import tensorflow first";
  library.set_status =
      reinterpret_cast<tfos::hadoop::SetStatus>(::dlsym(framework, "TF_SetStatus"));
  if (library.set_status == nullptr) return "this TensorFlow has no TF_SetStatus";
  library.scheme = scheme;
  library.files = static_cast<tfos::hadoop::FileSystem*>(files);
  return nullptr;
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
