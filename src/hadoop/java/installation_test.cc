#include "hadoop/java/installation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "testing/temporary_folder.h"

namespace tfos::hadoop {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InstallationTest : public ::testing::Test {
 protected:
  std::string Make(const std::string& name) {
    fs::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << "x";
    return (root_ / name).string();
  }
  std::string At(const std::string& name) { return (root_ / name).string(); }
  void MakeClient(const std::string& directory) {
    for (const char* jar : {"hadoop-client-api-3.4.2.jar", "hadoop-client-runtime-3.4.2.jar",
                            "slf4j-api-2.0.17.jar", "spark-core.jar"}) {
      Make(directory + "/" + jar);
    }
  }
  EnvironmentLookup Environment() {
    return [this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    };
  }

  const tfos::testing::TemporaryFolder folder_;
  const fs::path& root_ = folder_.path();
  std::map<std::string, std::string> variables_;
};

TEST_F(InstallationTest, TakesTheLibraryOfJavaHome) {
  const std::string library = Make("jdk/lib/server/libjvm.so");
  variables_["JAVA_HOME"] = At("jdk");
  EXPECT_EQ(FindJvmLibrary(Environment()).value(), library);
}

TEST_F(InstallationTest, FollowsTheJavaOfThePath) {
  const std::string library = Make("jdk/lib/server/libjvm.so");
  Make("jdk/bin/java");
  fs::create_directories(root_ / "bin");
  fs::create_symlink(root_ / "jdk/bin/java", root_ / "bin/java");
  variables_["JAVA_HOME"] = "";
  variables_["PATH"] = At("nothing") + "::" + At("bin");
  EXPECT_EQ(fs::canonical(FindJvmLibrary(Environment()).value()), fs::canonical(library));
}

TEST_F(InstallationTest, SaysWhichJavaIsMissing) {
  EXPECT_THAT(FindJvmLibrary(Environment()).status().ToString(), HasSubstr("set JAVA_HOME"));
  variables_["JAVA_HOME"] = At("no-java");
  EXPECT_THAT(FindJvmLibrary(Environment()).status().ToString(),
              AllOf(HasSubstr("JAVA_HOME=" + At("no-java")), HasSubstr("libjvm.so")));
}

TEST_F(InstallationTest, PutsTheConfigurationBeforeTheClient) {
  MakeClient("spark/jars");
  Make("conf/core-site.xml");
  const std::string extra = Make("extra/gcs.jar");
  variables_["HADOOP_CONF_DIR"] = At("conf");
  variables_["HADOOP_CLASSPATH"] = At("extra") + "/*:/some/directory";
  const auto client = ElementsAre(
      At("conf"), extra, "/some/directory", At("spark/jars/hadoop-client-api-3.4.2.jar"),
      At("spark/jars/hadoop-client-runtime-3.4.2.jar"), At("spark/jars/slf4j-api-2.0.17.jar"));
  EXPECT_THAT(FindClassPath(Environment(), At("spark")).value(), client);
  variables_["SPARK_HOME"] = At("spark");
  EXPECT_THAT(FindClassPath(Environment(), "/another/spark").value(), client);
}

TEST_F(InstallationTest, TakesTheSubmittersConfigurationInAContainerOfYarn) {
  MakeClient("spark/jars");
  Make("container/__spark_conf__/__hadoop_conf__/core-site.xml");
  Make("nodemanager/core-site.xml");
  const auto configuration = [this] {
    return FindClassPath(Environment(), At("spark")).value().front();
  };
  variables_["PWD"] = At("container");
  EXPECT_EQ(configuration(), At("spark/jars/hadoop-client-api-3.4.2.jar"));
  variables_["CONTAINER_ID"] = "container_1_0001_01_000001";
  EXPECT_EQ(configuration(), At("container/__spark_conf__/__hadoop_conf__"));
  variables_["HADOOP_CONF_DIR"] = At("nodemanager");
  EXPECT_EQ(configuration(), At("nodemanager"));
}

TEST_F(InstallationTest, TakesTheJarsOfTheExecutorInAContainerOfYarn) {
  MakeClient("container/__spark_libs__");
  MakeClient("hadoop/share/hadoop/client");
  variables_["HADOOP_HOME"] = At("hadoop");
  variables_["CLASSPATH"] = At("container") + ":" + At("container/__spark_libs__/*");
  const auto client = [this] {
    return FindClassPath(Environment(), At("pyspark.zip/pyspark")).value().front();
  };
  EXPECT_EQ(client(), At("hadoop/share/hadoop/client/hadoop-client-api-3.4.2.jar"));
  variables_["CONTAINER_ID"] = "container_1_0001_01_000001";
  EXPECT_EQ(client(), At("container/__spark_libs__/hadoop-client-api-3.4.2.jar"));
}

TEST_F(InstallationTest, FallsBackToHadoopItself) {
  fs::create_directories(root_ / "hadoop/etc/hadoop");
  MakeClient("hadoop/share/hadoop/client");
  variables_["HADOOP_HOME"] = At("hadoop");
  variables_["SPARK_HOME"] = At("spark-without-hadoop");
  const auto class_path = FindClassPath(Environment(), "");
  ASSERT_TRUE(class_path.ok()) << class_path.status().ToString();
  EXPECT_EQ(class_path.value().front(), At("hadoop/etc/hadoop"));
  EXPECT_EQ(class_path.value().size(), 4u);
}

TEST_F(InstallationTest, TakesTheConnectorsOfObjectStores) {
  MakeClient("spark/jars");
  for (const char* jar : {"hadoop-aws-3.4.2.jar", "bundle-2.29.52.jar", "commons-lang3-3.19.0.jar",
                          "commons-text-1.14.0.jar"}) {
    Make(std::string("spark/jars/") + jar);
  }
  EXPECT_THAT(FindClassPath(Environment(), At("spark")).value(),
              ElementsAre(HasSubstr("api"), HasSubstr("runtime"), HasSubstr("slf4j"),
                          HasSubstr("hadoop-aws"), HasSubstr("bundle"), HasSubstr("lang3")));
}

TEST_F(InstallationTest, SaysWhatOfTheClassPathIsMissing) {
  EXPECT_THAT(FindClassPath(Environment(), "").status().ToString(), HasSubstr("set SPARK_HOME"));
  variables_["SPARK_HOME"] = At("spark");
  EXPECT_THAT(FindClassPath(Environment(), "").status().ToString(),
              AllOf(HasSubstr("hadoop-client-api"), HasSubstr(At("spark/jars"))));
  MakeClient("spark/jars");
  variables_["HADOOP_CONF_DIR"] = At("no-conf");
  EXPECT_THAT(FindClassPath(Environment(), "").status().ToString(),
              HasSubstr("HADOOP_CONF_DIR=" + At("no-conf")));
}

}  // namespace
}  // namespace tfos::hadoop
