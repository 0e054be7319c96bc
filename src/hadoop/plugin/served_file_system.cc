#include "hadoop/plugin/served_file_system.h"

#include <cerrno>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "tensorflow/run_for_c.h"
#include "tensorflow/tf_codes.h"

namespace tfos::hadoop {
namespace {

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

FileSystem& Files(void* context) { return *static_cast<FileSystem*>(context); }
ReadableFile& Readable(void* file) { return *static_cast<ReadableFile*>(file); }
WritableFile& Writable(void* file) { return *static_cast<WritableFile*>(file); }

template <typename Work>
std::int32_t Run(char** message, Work work) {
  return tensorflow::RunForC(message, work, CodeOf);
}

/// Gives a file away.
template <typename File>
Status Give(Result<std::unique_ptr<File>> opened, void** file) {
  if (!opened.ok()) return std::move(opened).status();
  *file = opened->release();
  return {};
}

std::int32_t Open(void* context, const char* path, void** file, char** message) {
  return Run(message, [&] { return Give(Files(context).Open(path), file); });
}

std::int32_t Create(void* context, const char* path, void** file, char** message) {
  return Run(message, [&] { return Give(Files(context).Create(path), file); });
}

std::int32_t Append(void* context, const char* path, void** file, char** message) {
  return Run(message, [&] { return Give(Files(context).Append(path), file); });
}

std::int32_t Rename(void* context, const char* from, const char* to, char** message) {
  return Run(message, [&] { return Files(context).Rename(from, to); });
}

std::int32_t Remove(void* context, const char* path, std::int32_t recursive, char** message) {
  return Run(message, [&] { return Files(context).Delete(path, recursive != 0); });
}

std::int32_t Stat(void* context, const char* path, tfos_file_info* info, char** message) {
  return Run(message, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const FileInfo found, Files(context).Stat(path));
    *info = {.bytes = found.bytes,
             .modified_ns = found.modified_ns,
             .is_directory = found.is_directory ? 1 : 0};
    return {};
  });
}

std::int32_t List(void* context, const char* path, tfos_add_entry add, void* to, char** message) {
  return Run(message, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(const auto entries, Files(context).List(path));
    for (const DirectoryEntry& entry : entries) {
      if (add(to, entry.name.c_str()) == 0) throw std::bad_alloc();
    }
    return {};
  });
}

std::int32_t MakeDirectories(void* context, const char* path, char** message) {
  return Run(message, [&] { return Files(context).MakeDirectories(path); });
}

std::int32_t Read(void* file, std::uint64_t offset, void* room, std::uint64_t bytes,
                  std::uint64_t* read, char** message) {
  return Run(message, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(*read,
                          Readable(file).Read(offset, {static_cast<std::byte*>(room), bytes}));
    return {};
  });
}

void CloseReadable(void* file) { delete &Readable(file); }

std::int32_t Write(void* file, const void* bytes, std::uint64_t count, char** message) {
  return Run(message, [&] {
    return Writable(file).Append({static_cast<const std::byte*>(bytes), count});
  });
}

std::int32_t Tell(void* file, std::uint64_t* position, char** message) {
  return Run(message, [&]() -> Status {
    TFOS_ASSIGN_OR_RETURN(*position, Writable(file).Tell());
    return {};
  });
}

std::int32_t Flush(void* file, char** message) {
  return Run(message, [&] { return Writable(file).Flush(); });
}

std::int32_t Sync(void* file, char** message) {
  return Run(message, [&] { return Writable(file).Sync(); });
}

std::int32_t Close(void* file, char** message) {
  return Run(message, [&] { return Writable(file).Close(); });
}

void CloseWritable(void* file) { delete &Writable(file); }

void FreeMessage(char* message) { std::free(message); }

}  // namespace

tfos_file_system TableOf(FileSystem& files) {
  return {.version = TFOS_FILE_SYSTEM_VERSION,
          .context = &files,
          .open = &Open,
          .create = &Create,
          .append = &Append,
          .rename = &Rename,
          .remove = &Remove,
          .stat = &Stat,
          .list = &List,
          .make_directories = &MakeDirectories,
          .read = &Read,
          .close_readable = &CloseReadable,
          .write = &Write,
          .tell = &Tell,
          .flush = &Flush,
          .sync = &Sync,
          .close = &Close,
          .close_writable = &CloseWritable,
          .free_message = &FreeMessage};
}

}  // namespace tfos::hadoop
