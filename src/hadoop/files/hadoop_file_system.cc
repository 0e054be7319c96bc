#include "hadoop/files/hadoop_file_system.h"

#include <cerrno>

#include "base/format.h"
#include "hadoop/files/buffered_file.h"
#include "hadoop/files/hadoop_file.h"
#include "hadoop/files/place.h"
#include "hadoop/files/read_ahead.h"

namespace tfos::hadoop {
namespace {

/// What FileSystem says for those that can't but make the directories above a file, such as some
/// object stores.
constexpr std::string_view kOnlyWithDirectories = "createNonRecursive unsupported";

constexpr std::int64_t kNanosecondsOfMillisecond = 1'000'000;

/// Where a path of a viewfs is on the file system that is mounted there. Asks that one for the
/// directory alone: what the path itself names need not be there.
Result<Place> Behind(const Call& call, const Place& view, std::string_view path) {
  JNIEnv* java = call.java();
  const HadoopMethods& methods = call.methods();
  jobject directory = java->CallObjectMethod(view.path, methods.path_parent);
  TFOS_RETURN_IF_ERROR(TakeException(java, fmt::format("understand the path {}", path)));
  if (directory == nullptr) {
    return Status::FromErrno(EBUSY, fmt::format("{} is the root of its file system", path));
  }
  jobject resolved = java->CallObjectMethod(view.system, methods.resolve_path, directory);
  TFOS_RETURN_IF_ERROR(TakeException(java, fmt::format("find what is mounted at {}", path)));
  auto* const above = static_cast<jstring>(java->CallObjectMethod(resolved, methods.to_string));
  auto* const name = static_cast<jstring>(java->CallObjectMethod(view.path, methods.path_name));
  TFOS_RETURN_IF_ERROR(TakeException(java, fmt::format("understand the path {}", path)));
  return Find(call, fmt::format("{}/{}", TextOf(java, above), TextOf(java, name)));
}

/// The URI of a file system: hdfs://namenode:8020.
Result<std::string> NameOf(const Call& call, jobject system) {
  JNIEnv* java = call.java();
  jobject uri = java->CallObjectMethod(system, call.methods().system_uri);
  TFOS_RETURN_IF_ERROR(TakeException(java, "ask a file system for its URI"));
  auto* const text = static_cast<jstring>(java->CallObjectMethod(uri, call.methods().to_string));
  TFOS_RETURN_IF_ERROR(TakeException(java, "ask a file system for its URI"));
  return TextOf(java, text);
}

/// A path within its file system, however it is spelled: /a/b for hdfs://namenode//a/b.
Result<std::string> PathWithin(const Call& call, const Place& place) {
  JNIEnv* java = call.java();
  const HadoopMethods& methods = call.methods();
  constexpr std::string_view kDoing = "make a path absolute";
  jobject qualified = java->CallObjectMethod(place.system, methods.make_qualified, place.path);
  TFOS_RETURN_IF_ERROR(TakeException(java, kDoing));
  jobject uri = java->CallObjectMethod(qualified, methods.path_uri);
  TFOS_RETURN_IF_ERROR(TakeException(java, kDoing));
  auto* const text = static_cast<jstring>(java->CallObjectMethod(uri, methods.uri_path));
  TFOS_RETURN_IF_ERROR(TakeException(java, kDoing));
  return TextOf(java, text);
}

FileInfo InfoOf(const Call& call, jobject status) {
  JNIEnv* java = call.java();
  const HadoopMethods& methods = call.methods();
  return {.bytes = static_cast<std::uint64_t>(java->CallLongMethod(status, methods.status_length)),
          .modified_ns =
              java->CallLongMethod(status, methods.status_modified) * kNanosecondsOfMillisecond,
          .is_directory = java->CallBooleanMethod(status, methods.status_is_directory) == JNI_TRUE};
}

std::string_view LastNameOf(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

Result<std::unique_ptr<ReadableFile>> HadoopFileSystem::Open(std::string_view path) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  TFOS_ASSIGN_OR_RETURN(jobject const stream, OfPath(*call, call->methods().open, path, "open"));
  return std::unique_ptr<ReadableFile>(std::make_unique<ReadAhead>(
      std::make_unique<HadoopSource>(client_, *call, stream, std::string(path))));
}

Result<std::unique_ptr<WritableFile>> HadoopFileSystem::Create(std::string_view path) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  TFOS_ASSIGN_OR_RETURN(jobject const stream,
                        OfPath(*call, call->methods().create, path, "create"));
  return std::unique_ptr<WritableFile>(std::make_unique<BufferedFile>(
      std::make_unique<HadoopWritableFile>(client_, *call, stream, std::string(path))));
}

Result<std::unique_ptr<WritableFile>> HadoopFileSystem::CreateInDirectory(std::string_view path) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  JNIEnv* java = call->java();
  const HadoopMethods& methods = call->methods();
  TFOS_ASSIGN_OR_RETURN(jobject const builder, OfPath(*call, methods.create_file, path, "create"));
  jobject stream = java->CallObjectMethod(builder, methods.builder_build);
  Status built = TakeException(java, fmt::format("create {}", path));
  if (!built.ok() && built.ToString().find(kOnlyWithDirectories) != std::string::npos) {
    TFOS_ASSIGN_OR_RETURN(const Place place, Find(*call, path));
    jobject directory = java->CallObjectMethod(place.path, methods.path_parent);
    TFOS_RETURN_IF_ERROR(TakeException(java, fmt::format("understand the path {}", path)));
    if (directory != nullptr) {
      java->CallObjectMethod(place.system, methods.get_status, directory);
      TFOS_RETURN_IF_ERROR(TakeException(java, fmt::format("create {}", path)));
    }
    return Create(path);
  }
  TFOS_RETURN_IF_ERROR(std::move(built));
  return std::unique_ptr<WritableFile>(std::make_unique<BufferedFile>(
      std::make_unique<HadoopWritableFile>(client_, *call, stream, std::string(path))));
}

Result<std::unique_ptr<WritableFile>> HadoopFileSystem::Append(std::string_view path) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  auto stream = OfPath(*call, call->methods().append, path, "append to");
  if (!stream.ok()) {
    if (stream.status().code().value() == ENOENT) return Create(path);
    return std::move(stream).status();
  }
  return std::unique_ptr<WritableFile>(std::make_unique<BufferedFile>(
      std::make_unique<HadoopWritableFile>(client_, *call, *stream, std::string(path))));
}

Status HadoopFileSystem::Rename(std::string_view from, std::string_view to) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  JNIEnv* java = call->java();
  const HadoopMethods& methods = call->methods();
  TFOS_ASSIGN_OR_RETURN(Place source, Find(*call, from));
  TFOS_ASSIGN_OR_RETURN(Place target, Find(*call, to));
  // A viewfs would delete the target, and then maybe refuse to rename.
  if (java->IsInstanceOf(source.system, methods.view_class) == JNI_TRUE) {
    TFOS_ASSIGN_OR_RETURN(source, Behind(*call, source, from));
  }
  if (java->IsInstanceOf(target.system, methods.view_class) == JNI_TRUE) {
    TFOS_ASSIGN_OR_RETURN(target, Behind(*call, target, to));
  }
  for (const jobject system : {jobject(source.system), jobject(target.system)}) {
    if (java->IsInstanceOf(system, methods.view_class) == JNI_TRUE) {
      return Status::FromErrno(
          EXDEV,
          fmt::format("rename {} to {}: what is mounted there is a view, too; name the path on "
                      "the file system behind it",
                      from, to));
    }
  }
  TFOS_ASSIGN_OR_RETURN(const std::string source_name, NameOf(*call, source.system));
  TFOS_ASSIGN_OR_RETURN(const std::string target_name, NameOf(*call, target.system));
  if (source_name != target_name) {
    return Status::FromErrno(EXDEV, fmt::format("rename {} to {}: one is on {} and the other on "
                                                "{}; copy it and delete the old one",
                                                from, to, source_name, target_name));
  }
  TFOS_ASSIGN_OR_RETURN(const std::string source_path, PathWithin(*call, source));
  TFOS_ASSIGN_OR_RETURN(const std::string target_path, PathWithin(*call, target));
  if (source_path == target_path) {
    // FileSystem's own rename would delete the target, which is the source.
    java->CallObjectMethod(source.system, methods.get_status, source.path);
    return TakeException(java, fmt::format("rename {} to {}", from, to));
  }
  if (java->IsInstanceOf(source.system, methods.checksum_class) == JNI_TRUE) {
    // Its own would leave the file of checksums behind; FileSystem's, by a deletion and the rename
    // without options, does not.
    java->CallNonvirtualVoidMethod(source.system, methods.system_class, methods.rename, source.path,
                                   target.path, methods.rename_options);
  } else {
    java->CallVoidMethod(source.system, methods.rename, source.path, target.path,
                         methods.rename_options);
  }
  return TakeException(java, fmt::format("rename {} to {}", from, to));
}

Status HadoopFileSystem::Delete(std::string_view path, bool recursive) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  TFOS_ASSIGN_OR_RETURN(const Place place, Find(*call, path));
  const bool deleted =
      call->java()->CallBooleanMethod(place.system, call->methods().delete_path, place.path,
                                      recursive ? JNI_TRUE : JNI_FALSE) == JNI_TRUE;
  TFOS_RETURN_IF_ERROR(TakeException(call->java(), fmt::format("delete {}", path)));
  if (!deleted) return Status::FromErrno(ENOENT, fmt::format("delete {}", path));
  return Status::Ok();
}

Result<FileInfo> HadoopFileSystem::Stat(std::string_view path) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  TFOS_ASSIGN_OR_RETURN(jobject const status,
                        OfPath(*call, call->methods().get_status, path, "look at"));
  return InfoOf(*call, status);
}

Result<std::vector<DirectoryEntry>> HadoopFileSystem::List(std::string_view path) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  TFOS_ASSIGN_OR_RETURN(jobject const listed,
                        OfPath(*call, call->methods().list_status, path, "list"));
  JNIEnv* java = call->java();
  auto* const entries = static_cast<jobjectArray>(listed);
  std::vector<DirectoryEntry> found;
  const jsize count = java->GetArrayLength(entries);
  found.reserve(static_cast<std::size_t>(count));
  for (jsize i = 0; i < count; ++i) {
    const LocalFrame frame(java);
    jobject status = java->GetObjectArrayElement(entries, i);
    jobject entry = java->CallObjectMethod(status, call->methods().status_path);
    auto* name = static_cast<jstring>(java->CallObjectMethod(entry, call->methods().path_name));
    found.push_back({.name = TextOf(java, name), .info = InfoOf(*call, status)});
    TFOS_RETURN_IF_ERROR(TakeException(java, fmt::format("list {}", path)));
  }
  // Hadoop lists a file as itself, which looks like a directory with a file of the same name.
  if (found.size() == 1 && !found[0].info.is_directory && LastNameOf(path) == found[0].name) {
    TFOS_ASSIGN_OR_RETURN(const FileInfo info, Stat(path));
    if (!info.is_directory) return Status::FromErrno(ENOTDIR, fmt::format("list {}", path));
  }
  return found;
}

Status HadoopFileSystem::MakeDirectories(std::string_view path) {
  TFOS_ASSIGN_OR_RETURN(const auto call, client_.Begin());
  TFOS_ASSIGN_OR_RETURN(const Place place, Find(*call, path));
  const bool made = call->java()->CallBooleanMethod(place.system, call->methods().make_directories,
                                                    place.path) == JNI_TRUE;
  TFOS_RETURN_IF_ERROR(TakeException(call->java(), fmt::format("make the directory {}", path)));
  if (!made) return Status::FromErrno(EIO, fmt::format("make the directory {}", path));
  return Status::Ok();
}

}  // namespace tfos::hadoop
