#ifndef TFOS_HADOOP_FILES_HADOOP_FILE_SYSTEM_H_
#define TFOS_HADOOP_FILES_HADOOP_FILE_SYSTEM_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "hadoop/files/file_system.h"
#include "hadoop/java/client.h"

namespace tfos::hadoop {

/// Whatever Hadoop's FileSystem reaches: hdfs://, viewfs:// and what the class path adds. Each call
/// goes to the file system that its path names, as the user and with the configuration that Hadoop
/// finds. Files are read ahead as ReadAhead has it, and written through a buffer of 256 KiB.
///
/// Owner and lifetime: borrows `client`, which must outlive it and its files. Threads: any number.
/// Errors: as FileSystem has them; those of Hadoop name the Java exception.
class HadoopFileSystem : public FileSystem {
 public:
  explicit HadoopFileSystem(Client& client) : client_(client) {}

  Result<std::unique_ptr<ReadableFile>> Open(std::string_view path) override;
  Result<std::unique_ptr<WritableFile>> Create(std::string_view path) override;
  Result<std::unique_ptr<WritableFile>> CreateInDirectory(std::string_view path) override;
  Result<std::unique_ptr<WritableFile>> Append(std::string_view path) override;
  Status Rename(std::string_view from, std::string_view to) override;
  Status Delete(std::string_view path, bool recursive) override;
  Result<FileInfo> Stat(std::string_view path) override;
  Result<std::vector<DirectoryEntry>> List(std::string_view path) override;
  Status MakeDirectories(std::string_view path) override;

 private:
  Client& client_;
};

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_FILES_HADOOP_FILE_SYSTEM_H_
