#include "hadoop/java/installation.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "base/format.h"

namespace tfos::hadoop {
namespace {

namespace fs = std::filesystem;

/// Where a JDK or JRE of 9 and newer, and of 8, keeps it.
constexpr std::array kLibraryPlaces = {"lib/server/libjvm.so", "jre/lib/amd64/server/libjvm.so",
                                       "lib/amd64/server/libjvm.so"};

/// Where Spark on YARN puts the submitter's configuration, below a container's directory.
constexpr const char* kShippedConfiguration = "__spark_conf__/__hadoop_conf__";

/// An empty variable counts as one that is not set, as in Hadoop's scripts.
std::optional<std::string> Lookup(const EnvironmentLookup& environment, const std::string& name) {
  auto value = environment(name);
  if (value && value->empty()) value.reset();
  return value;
}

bool IsFile(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool IsDirectory(const fs::path& path) {
  std::error_code error;
  return fs::is_directory(path, error);
}

std::optional<std::string> LibraryBelow(const fs::path& home) {
  for (const char* place : kLibraryPlaces) {
    if (IsFile(home / place)) return (home / place).string();
  }
  return std::nullopt;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const auto end = std::min(text.find(separator), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

/// Jars in `directory` whose names begin with `prefix`, sorted.
std::vector<std::string> Jars(const fs::path& directory, std::string_view prefix) {
  std::vector<std::string> jars;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(".jar")) jars.push_back(entry->path().string());
  }
  std::ranges::sort(jars);
  return jars;
}

void Add(std::vector<std::string>& to, const std::vector<std::string>& what) {
  to.insert(to.end(), what.begin(), what.end());
}

/// The directories whose jars the executor's Java in this container of YARN was given.
std::vector<fs::path> JarDirectories(const EnvironmentLookup& environment) {
  std::vector<fs::path> directories;
  for (const std::string& entry : Split(Lookup(environment, "CLASSPATH").value_or(""), ':')) {
    if (entry.ends_with("/*")) directories.push_back(fs::path(entry).parent_path());
  }
  return directories;
}

/// What the client needs of the jars in `directories`; nothing when a part is missing. Spark brings
/// hundreds of jars: with all of them on the class path the first use would take much longer.
std::vector<std::string> Client(const std::vector<fs::path>& directories) {
  std::vector<std::string> client;
  for (const char* part : {"hadoop-client-api-", "hadoop-client-runtime-", "slf4j-api-"}) {
    std::vector<std::string> jars;
    for (const fs::path& directory : directories) {
      jars = Jars(directory, part);
      if (!jars.empty()) break;
    }
    if (jars.empty()) return {};
    client.push_back(jars.back());
  }
  // Others, such as the connectors of object stores and what those lean on: that of s3a is not
  // loaded without commons-lang3.
  for (const fs::path& directory : directories) {
    for (const char* part :
         {"hadoop-aws", "hadoop-azure", "hadoop-cloud", "hadoop-shaded-guava", "bundle-",
          "gcs-connector", "wildfly-openssl", "commons-logging-", "commons-lang3-"}) {
      Add(client, Jars(directory, part));
    }
  }
  return client;
}

}  // namespace

std::optional<std::string> ProcessEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<std::string> FindJvmLibrary(const EnvironmentLookup& environment) {
  if (const auto home = Lookup(environment, "JAVA_HOME")) {
    if (auto library = LibraryBelow(*home)) return *library;
    return Status(ErrorKind::kBadInput,
                  fmt::format("JAVA_HOME={} has no lib/server/libjvm.so: set it to a Java of 11 or "
                              "newer (for Spark 4: 17), or unset it to use the PATH's java",
                              *home));
  }
  for (const std::string& directory : Split(Lookup(environment, "PATH").value_or(""), ':')) {
    std::error_code error;
    // Through links such as /usr/bin/java -> /etc/alternatives/java -> .../bin/java.
    const fs::path java = fs::canonical(fs::path(directory) / "java", error);
    if (error) continue;
    if (auto library = LibraryBelow(java.parent_path().parent_path())) return *library;
  }
  return Status(ErrorKind::kBadInput,
                "there is no Java: JAVA_HOME is not set, and no java of the PATH has a libjvm.so; "
                "install one (Spark needs it too) or set JAVA_HOME");
}

Result<std::vector<std::string>> FindClassPath(const EnvironmentLookup& environment,
                                               const std::string& spark_home) {
  std::vector<std::string> class_path;
  const auto hadoop_home = Lookup(environment, "HADOOP_HOME");
  if (const auto configuration = Lookup(environment, "HADOOP_CONF_DIR")) {
    if (!IsDirectory(*configuration)) {
      return Status(ErrorKind::kBadInput,
                    fmt::format("HADOOP_CONF_DIR={} is not a directory: set it to the one with the "
                                "cluster's core-site.xml and hdfs-site.xml, or unset it",
                                *configuration));
    }
    class_path.push_back(*configuration);
  } else if (const fs::path shipped =
                 fs::path(Lookup(environment, "PWD").value_or("")) / kShippedConfiguration;
             Lookup(environment, "CONTAINER_ID") && IsDirectory(shipped)) {
    class_path.push_back(shipped.string());
  } else if (hadoop_home && IsDirectory(fs::path(*hadoop_home) / "etc/hadoop")) {
    class_path.push_back((fs::path(*hadoop_home) / "etc/hadoop").string());
  }
  for (const std::string& entry :
       Split(Lookup(environment, "HADOOP_CLASSPATH").value_or(""), ':')) {
    if (entry.ends_with("/*")) {
      Add(class_path, Jars(fs::path(entry).parent_path(), ""));
    } else {
      class_path.push_back(entry);
    }
  }

  std::string looked_in;
  std::vector<std::string> client;
  const std::string spark = Lookup(environment, "SPARK_HOME").value_or(spark_home);
  if (!spark.empty()) {
    const fs::path jars = fs::path(spark) / "jars";
    client = Client({jars});
    looked_in = jars.string();
  }
  if (client.empty() && Lookup(environment, "CONTAINER_ID")) {
    const std::vector<fs::path> directories = JarDirectories(environment);
    client = Client(directories);
    for (const fs::path& directory : directories) {
      looked_in += (looked_in.empty() ? "" : " and ") + directory.string();
    }
  }
  if (client.empty() && hadoop_home) {
    const fs::path share = fs::path(*hadoop_home) / "share/hadoop";
    client = Client({share / "client", share / "common/lib", share / "tools/lib"});
    looked_in += (looked_in.empty() ? "" : " and ") + share.string();
  }
  if (client.empty()) {
    return Status(
        ErrorKind::kBadInput,
        looked_in.empty()
            ? "there is no class path for Hadoop's client: set SPARK_HOME, install pyspark, or set "
              "HADOOP_HOME"
            : fmt::format("there is no Hadoop client (hadoop-client-api, hadoop-client-runtime and "
                          "slf4j-api) in {}: set SPARK_HOME to a Spark built with Hadoop, or "
                          "HADOOP_HOME to a Hadoop of 3.3 or newer",
                          looked_in));
  }
  Add(class_path, client);
  return class_path;
}

}  // namespace tfos::hadoop
