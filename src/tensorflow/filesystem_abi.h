#ifndef TFOS_TENSORFLOW_FILESYSTEM_ABI_H_
#define TFOS_TENSORFLOW_FILESYSTEM_ABI_H_

#include <cstddef>
#include <cstdint>

// What TensorFlow (2.16 to 2.21) and a plugin for file systems tell each other: our declarations of
// tensorflow/c/experimental/filesystem/filesystem_interface.h and tf_file_statistics.h, versions 0
// of its tables. The order of the fields is the interface; what we don't offer is an untyped
// pointer here, and null.

struct TF_Status;

namespace tfos::tensorflow {

// Each is a pointer to something of the plugin.
struct TfRandomAccessFile {
  void* file;
};
struct TfWritableFile {
  void* file;
};
struct TfFilesystem {
  void* filesystem;
};

/// Bytes; nanoseconds since 1970.
struct TfFileStatistics {
  std::int64_t length;
  std::int64_t mtime_nsec;
  bool is_directory;
};

struct TfRandomAccessFileOps {
  void (*cleanup)(TfRandomAccessFile*);
  /// OUT_OF_RANGE with what there is when the file ends before `bytes`.
  std::int64_t (*read)(const TfRandomAccessFile*, std::uint64_t offset, std::size_t bytes,
                       char* buffer, TF_Status*);
};

struct TfWritableFileOps {
  void (*cleanup)(TfWritableFile*);
  void (*append)(const TfWritableFile*, const char* buffer, std::size_t bytes, TF_Status*);
  std::int64_t (*tell)(const TfWritableFile*, TF_Status*);
  void (*flush)(const TfWritableFile*, TF_Status*);
  void (*sync)(const TfWritableFile*, TF_Status*);
  void (*close)(const TfWritableFile*, TF_Status*);
};

struct TfFilesystemOps {
  void (*init)(TfFilesystem*, TF_Status*);
  void (*cleanup)(TfFilesystem*);
  void (*new_random_access_file)(const TfFilesystem*, const char* path, TfRandomAccessFile*,
                                 TF_Status*);
  void (*new_writable_file)(const TfFilesystem*, const char* path, TfWritableFile*, TF_Status*);
  void (*new_appendable_file)(const TfFilesystem*, const char* path, TfWritableFile*, TF_Status*);
  void* new_read_only_memory_region_from_file;
  void (*create_dir)(const TfFilesystem*, const char* path, TF_Status*);
  void (*recursively_create_dir)(const TfFilesystem*, const char* path, TF_Status*);
  void (*delete_file)(const TfFilesystem*, const char* path, TF_Status*);
  void (*delete_dir)(const TfFilesystem*, const char* path, TF_Status*);
  void (*delete_recursively)(const TfFilesystem*, const char* path, std::uint64_t* undeleted_files,
                             std::uint64_t* undeleted_dirs, TF_Status*);
  void (*rename_file)(const TfFilesystem*, const char* from, const char* to, TF_Status*);
  void* copy_file;  // TensorFlow reads and writes then.
  void (*path_exists)(const TfFilesystem*, const char* path, TF_Status*);
  void* paths_exist;  // One by one then.
  void (*stat)(const TfFilesystem*, const char* path, TfFileStatistics*, TF_Status*);
  bool (*is_directory)(const TfFilesystem*, const char* path, TF_Status*);
  std::int64_t (*get_file_size)(const TfFilesystem*, const char* path, TF_Status*);
  char* (*translate_name)(const TfFilesystem*, const char* uri);
  int (*get_children)(const TfFilesystem*, const char* path, char*** entries, TF_Status*);
  void* get_matching_paths;  // TensorFlow lists the directories then.
  void* flush_caches;
  void* transactions[6];
  void* configuration[5];
};

struct TfFilesystemPluginOps {
  char* scheme;
  int filesystem_ops_abi;
  int filesystem_ops_api;
  std::size_t filesystem_ops_size;
  TfFilesystemOps* filesystem_ops;
  int random_access_file_ops_abi;
  int random_access_file_ops_api;
  std::size_t random_access_file_ops_size;
  TfRandomAccessFileOps* random_access_file_ops;
  int writable_file_ops_abi;
  int writable_file_ops_api;
  std::size_t writable_file_ops_size;
  TfWritableFileOps* writable_file_ops;
  int read_only_memory_region_ops_abi;
  int read_only_memory_region_ops_api;
  std::size_t read_only_memory_region_ops_size;
  void* read_only_memory_region_ops;
};

/// All memory in it, and what `get_children` and `translate_name` return, is from
/// `plugin_memory_allocate` and ends by `plugin_memory_free`.
struct TfFilesystemPluginInfo {
  std::size_t num_schemes;
  TfFilesystemPluginOps* ops;
  void* (*plugin_memory_allocate)(std::size_t size);
  void (*plugin_memory_free)(void* memory);
};

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_FILESYSTEM_ABI_H_
