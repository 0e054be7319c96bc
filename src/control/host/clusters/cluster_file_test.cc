#include "control/host/clusters/cluster_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/format.h"

namespace tfos::control {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ClusterFileTest : public ::testing::Test {
 protected:
  ClusterFileTest() {
    std::string name = std::filesystem::temp_directory_path() / "tfos-cluster-files-XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    folder_ = root_ / "tfos";
  }
  ~ClusterFileTest() override { std::filesystem::remove_all(root_); }

  static ClusterRecord Record(const std::string& id, std::int64_t started_ms = 1) {
    return {.cluster_id = id,
            .name = "app",
            .endpoint = {.address = "127.0.0.1", .port = 1},
            .key = *Secret::FromHex(std::string(64, 'a')),
            .started_ms = started_ms};
  }
  Result<ClusterFile> Write(const std::string& id, std::int64_t started_ms = 1) const {
    return ClusterFile::Write({folder_}, Record(id, started_ms));
  }
  FoundClusters Find() const { return FindClusters({folder_}); }

  std::filesystem::path root_;
  std::filesystem::path folder_;
};

TEST_F(ClusterFileTest, IsFoundAsLongAsItsOwnerLives) {
  EXPECT_THAT(Find().refused, IsEmpty());
  {
    const auto later = Write("b", 2);
    const auto first = Write("c", 1);
    ASSERT_TRUE(later.ok() && first.ok());
    EXPECT_TRUE(first->IsThere());
    struct stat facts {};
    ASSERT_EQ(::stat(first->path().c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0600u);
    ASSERT_EQ(::stat(folder_.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 07777, 0700u);
    const FoundClusters found = Find();
    ASSERT_THAT(found.clusters, SizeIs(2));
    EXPECT_EQ(found.clusters[0].cluster_id, "c");
    EXPECT_EQ(found.clusters[1].cluster_id, "b");
    EXPECT_THAT(found.dead, IsEmpty());
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(ClusterFileTest, OneWhoseOwnerWasKilledIsRemoved) {
  {
    const auto alive = Write("a");
    std::filesystem::copy_file(alive->path(), folder_ / "b.json");
    ::chmod((folder_ / "b.json").c_str(), 0600);
    const FoundClusters found = Find();
    EXPECT_THAT(found.clusters, SizeIs(1));
    EXPECT_THAT(found.dead, ElementsAre("b"));
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(ClusterFileTest, LinksAndWhatOthersMayReadAreRefused) {
  const auto file = Write("a");
  ASSERT_TRUE(file.ok());
  std::filesystem::create_symlink("a.json", folder_ / "link.json");
  std::ofstream(folder_ / "open.json") << "{}";
  ::chmod((folder_ / "open.json").c_str(), 0644);
  ASSERT_EQ(::mkfifo((folder_ / "pipe.json").c_str(), 0600), 0);
  std::ofstream(folder_ / "other.txt") << "{}";
  const FoundClusters found = Find();
  EXPECT_THAT(found.clusters, SizeIs(1));
  EXPECT_THAT(found.refused,
              ElementsAre(EndsWith("link.json is not used: it is a link"),
                          EndsWith("open.json is not used: others may use it, too (mode 644)"),
                          EndsWith("pipe.json is not used: it is of another kind")));
}

TEST_F(ClusterFileTest, AFolderThatIsNotThisUsersAloneIsRefused) {
  std::filesystem::create_directory(root_ / "elsewhere");
  std::filesystem::create_directory_symlink(root_ / "elsewhere", folder_);
  EXPECT_THAT(Write("a").status().ToString(), HasSubstr("it is a link, or no folder"));
  EXPECT_THAT(Find().refused, ElementsAre(HasSubstr("it is a link, or no folder")));
  std::filesystem::remove(folder_);
  std::filesystem::create_directory(folder_);
  ::chmod(folder_.c_str(), 0755);
  EXPECT_THAT(Write("a").status().ToString(), HasSubstr("others may use it, too (mode 755)"));
  if (::geteuid() != 0) return;
  ::chmod(folder_.c_str(), 0700);
  ASSERT_EQ(::chown(folder_.c_str(), 12345, 12345), 0);
  EXPECT_THAT(Write("a").status().ToString(), HasSubstr("it belongs to the user 12345"));
  // The next folder serves.
  const auto file = ClusterFile::Write({folder_, root_ / "second"}, Record("a"));
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(file->path(), EndsWith("second/a.json"));
  EXPECT_THAT(FindClusters({folder_, root_ / "second"}).clusters, SizeIs(1));
}

TEST_F(ClusterFileTest, KnowsThatItIsGone) {
  auto file = Write("a");
  ASSERT_TRUE(file.ok());
  std::filesystem::remove(file->path());
  EXPECT_FALSE(file->IsThere());
  *file = Write("a").value();
  EXPECT_TRUE(file->IsThere());
  EXPECT_THAT(Find().clusters, SizeIs(1));
}

TEST_F(ClusterFileTest, TheEnvironmentNamesTheFolders) {
  ::setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  const std::string shared = fmt::format("/tmp/tfos-{}", ::geteuid());
  EXPECT_THAT(RuntimeFolders(), ElementsAre("/run/user/7/tfos", shared));
  ::unsetenv("XDG_RUNTIME_DIR");
  EXPECT_THAT(RuntimeFolders(), ElementsAre(shared));
  ::setenv("TFOS_RUNTIME_DIR", "/elsewhere", 1);
  EXPECT_THAT(RuntimeFolders(), ElementsAre("/elsewhere"));
  ::unsetenv("TFOS_RUNTIME_DIR");
}

}  // namespace
}  // namespace tfos::control
