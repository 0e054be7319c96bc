#ifndef TFOS_FILES_PROCESS_HADOOP_H_
#define TFOS_FILES_PROCESS_HADOOP_H_

#include <string>
#include <vector>

#include "hadoop/files/file_system.h"
#include "records/files/file_store.h"
#include "tfos/status.h"

namespace tfos::files {

// A process can have but one Java virtual machine, so all of it that reaches Hadoop shares one
// client. It is made by the first call and never destroyed, as threads detach themselves from Java
// when they end; Java starts with the first use of a path. Threads: any.

/// Says where jars are looked for without SPARK_HOME ("" for nowhere). Of no effect once Java runs.
void SetSparkHome(std::string spark_home);

/// Has the client read `all` where the variable TFOS_HADOOP_PROPERTIES still says `shown`.
/// Processes that this one starts inherit only the latter. Of no effect once Java runs.
void SetHadoopProperties(std::string shown, std::string all);

/// The class path that Java is going to start with, as hadoop::FindClassPath has it.
Result<std::vector<std::string>> HadoopClassPath();

/// Whether the client is in use: it has taken its settings then.
bool HadoopIsInUse();

/// What Hadoop's client of this process reaches.
hadoop::FileSystem& ProcessHadoop();

/// Files of records of this host and of Hadoop's.
const records::FileStore& ProcessFiles();

}  // namespace tfos::files

#endif  // TFOS_FILES_PROCESS_HADOOP_H_
