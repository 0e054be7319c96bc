#ifndef TFOS_HADOOP_PLUGIN_FILE_SYSTEM_TABLE_H_
#define TFOS_HADOOP_PLUGIN_FILE_SYSTEM_TABLE_H_

/* How the plugin for TensorFlow (plugin.cc) reaches the file system of tfos._native, which is in
 * another library: C alone, so that either may be built by another compiler, and a version. */

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TFOS_FILE_SYSTEM_VERSION 1

typedef struct tfos_file_info {
  uint64_t bytes;
  int64_t modified_ns; /* Since 1970. */
  int32_t is_directory;
} tfos_file_info;

/* Takes the name of one entry of a directory. Returns 0 when it has no memory for it. */
typedef int32_t (*tfos_add_entry)(void* to, const char* name);

/* Threads: any number at a time; of one file that is written, one after the other.
 * Errors: a function returns a TF_Code. If that is not 0 it sets `message` to a text that
 * free_message takes back, or to null where there is no memory for one. Nothing is thrown. */
typedef struct tfos_file_system {
  uint32_t version; /* TFOS_FILE_SYSTEM_VERSION */
  void* context;    /* Lasts as long as the process. */
  /* These give a file. close_readable and close_writable take it back. */
  int32_t (*open)(void* context, const char* path, void** file, char** message);
  int32_t (*create)(void* context, const char* path, void** file, char** message);
  int32_t (*append)(void* context, const char* path, void** file, char** message);
  int32_t (*rename)(void* context, const char* from, const char* to, char** message);
  int32_t (*remove)(void* context, const char* path, int32_t recursive, char** message);
  int32_t (*stat)(void* context, const char* path, tfos_file_info* info, char** message);
  int32_t (*list)(void* context, const char* path, tfos_add_entry add, void* to, char** message);
  int32_t (*make_directories)(void* context, const char* path, char** message);
  /* `read` bytes, fewer than asked for only where the file ends. */
  int32_t (*read)(void* file, uint64_t offset, void* room, uint64_t bytes, uint64_t* read,
                  char** message);
  void (*close_readable)(void* file);
  int32_t (*write)(void* file, const void* bytes, uint64_t count, char** message);
  int32_t (*tell)(void* file, uint64_t* position, char** message);
  int32_t (*flush)(void* file, char** message);
  int32_t (*sync)(void* file, char** message);
  int32_t (*close)(void* file, char** message);
  void (*close_writable)(void* file);
  void (*free_message)(char* message);
} tfos_file_system;

#ifdef __cplusplus
}
#endif

#endif /* TFOS_HADOOP_PLUGIN_FILE_SYSTEM_TABLE_H_ */
