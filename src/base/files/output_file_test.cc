#include "base/files/output_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tfos {
namespace {

namespace fs = std::filesystem;

class OutputFileTest : public testing::Test {
 protected:
  OutputFileTest() { fs::create_directory(folder_); }
  ~OutputFileTest() override { fs::remove_all(folder_); }

  std::string Path(const char* name) const { return (folder_ / name).string(); }
  static std::string TextOf(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t Files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

 private:
  // Other processes run these tests, too: of another build, or of another user.
  const fs::path folder_ = fs::path(testing::TempDir()) /
                           (testing::UnitTest::GetInstance()->current_test_info()->name() +
                            ("-" + std::to_string(::getpid())));
};

TEST_F(OutputFileTest, AppearsWholeForThisUserAlone) {
  const std::string path = Path("report.html");
  std::ofstream(path) << "old";
  {
    Result<OutputFile> file = OutputFile::Open(path);
    ASSERT_TRUE(file.ok()) << file.status().ToString();
    EXPECT_EQ(TextOf(path), "old");
    ASSERT_TRUE(file->Write("new").ok());
  }
  EXPECT_EQ(TextOf(path), "new");
  EXPECT_EQ(fs::status(path).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(Files(), 1u);
}

TEST_F(OutputFileTest, LeavesNothingBehindIfNothingWasWritten) {
  { ASSERT_TRUE(OutputFile::Open(Path("report.html")).ok()); }
  EXPECT_EQ(Files(), 0u);
}

TEST_F(OutputFileTest, WritesThroughNoLinkThatLiesInItsWay) {
  const std::string precious = Path("precious");
  std::ofstream(precious) << "kept";
  fs::create_symlink(precious, Path("report.html"));
  fs::create_symlink(precious, Path("report.html.part"));
  Result<OutputFile> file = OutputFile::Open(Path("report.html"));
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  ASSERT_TRUE(file->Write("new").ok());
  EXPECT_EQ(TextOf(precious), "kept");
  EXPECT_EQ(TextOf(Path("report.html")), "new");
  EXPECT_FALSE(fs::is_symlink(Path("report.html")));
}

TEST_F(OutputFileTest, SaysWhyAPathCannotBeWritten) {
  EXPECT_NE(OutputFile::Open(Path("none/report.html")).status().ToString().find("can't write"),
            std::string::npos);
  fs::create_directory(Path("folder"));
  EXPECT_NE(OutputFile::Open(Path("folder")).status().ToString().find("it is a folder"),
            std::string::npos);
}

}  // namespace
}  // namespace tfos
