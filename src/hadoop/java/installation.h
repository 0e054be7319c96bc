#ifndef TFOS_HADOOP_JAVA_INSTALLATION_H_
#define TFOS_HADOOP_JAVA_INSTALLATION_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tfos/status.h"

namespace tfos::hadoop {

/// The value of an environment variable; none where it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string&)>;

/// The environment of this process.
std::optional<std::string> ProcessEnvironment(const std::string& name);

/// libjvm.so of the Java that Spark would use too: JAVA_HOME's, else that of the PATH's `java`.
///
/// Threads: any. Errors: bad input; says where it looked and what to set.
Result<std::string> FindJvmLibrary(const EnvironmentLookup& environment);

/// The class path of Hadoop's client, in its order:
///   1. the cluster's configuration: HADOOP_CONF_DIR, else in a container of YARN (CONTAINER_ID)
///   what
///      Spark has put there of the submitter's, else HADOOP_HOME/etc/hadoop if it exists;
///   2. HADOOP_CLASSPATH (entries `directory/*` are its jars), for file systems and log bindings
///      that do not come with Spark;
///   3. the client: from the jars of Spark (SPARK_HOME, else `spark_home`, such as that of an
///      installed pyspark; "" for none), else in a container of YARN from those of its CLASSPATH,
///      else from HADOOP_HOME/share/hadoop.
///
/// Threads: any. Errors: bad input; says which of them is missing and what to set.
Result<std::vector<std::string>> FindClassPath(const EnvironmentLookup& environment,
                                               const std::string& spark_home);

}  // namespace tfos::hadoop

#endif  // TFOS_HADOOP_JAVA_INSTALLATION_H_
