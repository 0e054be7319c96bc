#include "files/process_hadoop.h"

#include <mutex>
#include <utility>

#include "files/uri_files.h"
#include "hadoop/client.h"
#include "hadoop/hadoop_file_system.h"
#include "hadoop/installation.h"

namespace tfos::files {
namespace {

/// What is known before there is a client.
struct Setting {
  std::mutex mutex;
  std::string spark_home;
};

Setting& TheSetting() {
  static auto* const setting = new Setting;
  return *setting;
}

struct Process {
  explicit Process(std::string spark_home)
      : client(hadoop::ProcessEnvironment, std::move(spark_home)), hadoop(client), files(hadoop) {}

  hadoop::Client client;
  hadoop::HadoopFileSystem hadoop;
  UriFiles files;
};

Process& TheProcess() {
  static auto* const process = [] {
    const std::lock_guard lock(TheSetting().mutex);
    return new Process(TheSetting().spark_home);
  }();
  return *process;
}

}  // namespace

void SetSparkHome(std::string spark_home) {
  const std::lock_guard lock(TheSetting().mutex);
  TheSetting().spark_home = std::move(spark_home);
}

hadoop::FileSystem& ProcessHadoop() { return TheProcess().hadoop; }

const records::FileStore& ProcessFiles() { return TheProcess().files; }

}  // namespace tfos::files
