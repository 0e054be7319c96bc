#ifndef TFOS_HADOOP_PLUGIN_SERVED_FILE_SYSTEM_H_
#define TFOS_HADOOP_PLUGIN_SERVED_FILE_SYSTEM_H_

#include "hadoop/files/file_system.h"
#include "hadoop/plugin/file_system_table.h"

namespace tfos::hadoop {

/// A file system as C sees it. Borrows `files`, whose errors become TensorFlow's codes; what it
/// throws becomes an error, too.
tfos_file_system TableOf(FileSystem& files);

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_PLUGIN_SERVED_FILE_SYSTEM_H_
