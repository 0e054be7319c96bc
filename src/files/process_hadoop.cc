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

/// What was said in place of environment variables.
struct Setting {
  Mutex mutex;
  std::string spark_home TFOS_GUARDED_BY(mutex);
  std::string shown_properties TFOS_GUARDED_BY(mutex);
  std::string all_properties TFOS_GUARDED_BY(mutex);
};

Setting& TheSetting() {
  static auto* const setting = new Setting;
  return *setting;
}

/// Asked when Java starts, which may be long after the client was made.
std::optional<std::string> Environment(const std::string& name) {
  auto value = hadoop::ProcessEnvironment(name);
  Setting& setting = TheSetting();
  const MutexLock lock(setting.mutex);
  if (name == "SPARK_HOME" && value.value_or("").empty()) return setting.spark_home;
  const bool hides = name == "TFOS_HADOOP_PROPERTIES" && !setting.all_properties.empty();
  if (hides && value == setting.shown_properties) return setting.all_properties;
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

void SetHadoopProperties(std::string shown, std::string all) {
  Setting& setting = TheSetting();
  const MutexLock lock(setting.mutex);
  setting.shown_properties = std::move(shown);
  setting.all_properties = std::move(all);
}

Result<std::vector<std::string>> HadoopClassPath() {
  return hadoop::FindClassPath(Environment, "");
}

bool HadoopIsInUse() { return TheProcess().client.has_begun(); }

hadoop::FileSystem& ProcessHadoop() { return TheProcess().hadoop; }

const records::FileStore& ProcessFiles() { return TheProcess().files; }

}  // namespace tfos::files
