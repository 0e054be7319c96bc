#include "files/process_hadoop.h"

#include <optional>
#include <utility>

#include "base/thread/mutex.h"
#include "files/uri_files.h"
#include "hadoop/files/hadoop_file_system.h"
#include "hadoop/java/client.h"
#include "hadoop/java/installation.h"

namespace tfos::files {
namespace {

/// For a process without SPARK_HOME.
struct Setting {
  Mutex mutex;
  std::string spark_home TFOS_GUARDED_BY(mutex);
};

Setting& TheSetting() {
  static auto* const setting = new Setting;
  return *setting;
}

/// Asked when Java starts, which may be long after the client was made.
std::optional<std::string> Environment(const std::string& name) {
  auto value = hadoop::ProcessEnvironment(name);
  if (name == "SPARK_HOME" && value.value_or("").empty()) {
    Setting& setting = TheSetting();
    const MutexLock lock(setting.mutex);
    value = setting.spark_home;
  }
  return value;
}

struct Process {
  hadoop::Client client{Environment, ""};
  hadoop::HadoopFileSystem hadoop{client};
  UriFiles files{hadoop};
};

Process& TheProcess() {
  static auto* const process = new Process;
  return *process;
}

}  // namespace

void SetSparkHome(std::string spark_home) {
  Setting& setting = TheSetting();
  const MutexLock lock(setting.mutex);
  setting.spark_home = std::move(spark_home);
}

Result<std::vector<std::string>> HadoopClassPath() {
  return hadoop::FindClassPath(Environment, "");
}

hadoop::FileSystem& ProcessHadoop() { return TheProcess().hadoop; }

const records::FileStore& ProcessFiles() { return TheProcess().files; }

}  // namespace tfos::files
