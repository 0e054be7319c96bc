#include "files/process_hadoop.h"

#include <mutex>
#include <optional>
#include <utility>

#include "files/uri_files.h"
#include "hadoop/client.h"
#include "hadoop/hadoop_file_system.h"
#include "hadoop/installation.h"

namespace tfos::files {
namespace {

/// For a process without SPARK_HOME.
struct Setting {
  std::mutex mutex;
  std::string spark_home;
};

Setting& TheSetting() {
  static auto* const setting = new Setting;
  return *setting;
}

/// Asked when Java starts, which may be long after the client was made.
std::optional<std::string> Environment(const std::string& name) {
  auto value = hadoop::ProcessEnvironment(name);
  if (name == "SPARK_HOME" && value.value_or("").empty()) {
    const std::lock_guard lock(TheSetting().mutex);
    value = TheSetting().spark_home;
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
  const std::lock_guard lock(TheSetting().mutex);
  TheSetting().spark_home = std::move(spark_home);
}

Result<std::vector<std::string>> HadoopClassPath() {
  return hadoop::FindClassPath(Environment, "");
}

hadoop::FileSystem& ProcessHadoop() { return TheProcess().hadoop; }

const records::FileStore& ProcessFiles() { return TheProcess().files; }

}  // namespace tfos::files
