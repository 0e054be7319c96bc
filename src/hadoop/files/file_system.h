#ifndef TFOS_HADOOP_FILES_FILE_SYSTEM_H_
#define TFOS_HADOOP_FILES_FILE_SYSTEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tfos/status.h"

namespace tfos::hadoop {

/// What a file system knows about a path. Sizes are bytes, times nanoseconds since 1970.
struct FileInfo {
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  bool is_directory = false;
};

/// One of what a directory holds.
struct DirectoryEntry {
  std::string name;  ///< Without the directory.
  FileInfo info;
};

/// A file that is being read.
///
/// Owner and lifetime: made by a FileSystem, which it may outlive; closed by its destructor.
/// Threads: any number may read at a time. Errors: those of the file system, with the path.
class ReadableFile {
 public:
  virtual ~ReadableFile() = default;

  /// Fills `room` from `offset` (bytes). Fewer bytes than that only where the file ends.
  virtual Result<std::size_t> Read(std::uint64_t offset, std::span<std::byte> room) = 0;
};

/// A file that is being written, from its beginning or from its end on.
///
/// Owner and lifetime: made by a FileSystem, which it may outlive. Only `Close` says that all of
/// it has arrived; the destructor closes too, for nobody to listen.
/// Threads: any, one after the other. Errors: those of the file system, with the path.
class WritableFile {
 public:
  virtual ~WritableFile() = default;

  virtual Status Append(std::span<const std::byte> bytes) = 0;
  /// What was written is visible to all that open the file from now on (Hadoop's hflush).
  virtual Status Flush() = 0;
  /// It is on disk too (hsync).
  virtual Status Sync() = 0;
  /// Where the next byte goes.
  virtual Result<std::uint64_t> Tell() = 0;
  virtual Status Close() = 0;
  /// Closes a file that is not to be: where files appear when they are closed, as in S3, nothing
  /// does. Elsewhere it is incomplete. Nothing happens to one that is closed.
  virtual void Discard() { static_cast<void>(Close()); }
};

/// Files by their URI, such as hdfs://namenode:8020/a/b.
///
/// Owner and lifetime: its maker's. Threads: any number at a time.
/// Errors: `Status::code()` is the errno that the same call on a local file would give, where there
/// is one: ENOENT, EEXIST, EACCES, ENOTEMPTY, ENOTDIR, EISDIR, ...
class FileSystem {
 public:
  virtual ~FileSystem() = default;

  virtual Result<std::unique_ptr<ReadableFile>> Open(std::string_view path) = 0;
  /// A new file, with the directories above it; one that is there already is replaced.
  virtual Result<std::unique_ptr<WritableFile>> Create(std::string_view path) = 0;
  /// The same in a directory that is there, else ENOENT: nobody's file makes a directory again that
  /// another process has just deleted. In one step where the file system can (HDFS can). Object
  /// stores in which files appear when they are closed, such as S3, don't look.
  virtual Result<std::unique_ptr<WritableFile>> CreateInDirectory(std::string_view path) = 0;
  /// The file at `path` to be continued, or a new one.
  virtual Result<std::unique_ptr<WritableFile>> Append(std::string_view path) = 0;

  /// In one step where the file system can (HDFS can). Replaces a file that is at `to`. EXDEV, and
  /// both stay as they are, for paths of two file systems, or of mounts of a viewfs that lead
  /// there.
  virtual Status Rename(std::string_view from, std::string_view to) = 0;
  /// A directory with what it holds only if `recursive`, else ENOTEMPTY.
  virtual Status Delete(std::string_view path, bool recursive) = 0;
  virtual Result<FileInfo> Stat(std::string_view path) = 0;
  /// What is in the directory `path`, in any order. Takes no look at each.
  virtual Result<std::vector<DirectoryEntry>> List(std::string_view path) = 0;
  /// With those above it; OK when it is there already.
  virtual Status MakeDirectories(std::string_view path) = 0;
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_FILES_FILE_SYSTEM_H_
