#ifndef TFOS_BASE_FILES_OUTPUT_FILE_H_
#define TFOS_BASE_FILES_OUTPUT_FILE_H_

#include <string>
#include <string_view>

#include "base/process/unique_fd.h"
#include "tfos/status.h"

namespace tfos {

/// A file that appears under its name once it is whole. One that is there is replaced. Only this
/// user may read it.
///
/// Owner and lifetime: a value; without Write, nothing is left of it. Threads: one at a time.
class OutputFile {
 public:
  /// Bad input where it can't be written.
  static Result<OutputFile> Open(const std::string& path);
  ~OutputFile();
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;

  /// Once, with all of it. Errors: the system's.
  Status Write(std::string_view text);

 private:
  explicit OutputFile(const std::string& path) : path_(path), part_(path + ".XXXXXX") {}

  std::string path_;
  std::string part_;  ///< Beside it, under a name of its own.
  UniqueFd fd_;       ///< Invalid when all is written.
};

}  // namespace tfos

#endif  // TFOS_BASE_FILES_OUTPUT_FILE_H_
