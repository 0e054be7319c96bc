#ifndef TFOS_TESTING_TEMPORARY_FOLDER_H_
#define TFOS_TESTING_TEMPORARY_FOLDER_H_

#include <gtest/gtest.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace tfos::testing {

/// A new, empty folder for a test's files. No other has it, also not another run of the same test.
///
/// Owner and lifetime: removed with all that it holds.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = std::filesystem::path(::testing::TempDir()) / "tfos_XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) {
      throw std::filesystem::filesystem_error("make a folder for a test", pattern,
                                              {errno, std::generic_category()});
    }
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;  // What is left behind fails no test.
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace tfos::testing

#endif  // TFOS_TESTING_TEMPORARY_FOLDER_H_
