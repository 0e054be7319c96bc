#ifndef TFOS_CONTROL_PAGE_PAGE_FILES_H_
#define TFOS_CONTROL_PAGE_PAGE_FILES_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tfos::control {

/// A file that was compiled in. It lives as long as the process.
struct EmbeddedFile {
  std::string_view name;
  std::string_view bytes;
};

/// All files of the page.
std::span<const EmbeddedFile> EmbeddedFiles();

/// What a browser gets.
struct PageFile {
  std::string_view content_type;
  std::string_view bytes;
};

/// The file for a target, `/` or `/page/NAME`; nullopt where there is none. They are the same for
/// all clusters, and hold nothing of any.
std::optional<PageFile> FindPageFile(std::string_view target);

/// The page as one HTML file that shows what was recorded: it asks nobody for anything.
/// `recorded`: the object of JSON that data.js expects.
std::string ReportHtml(std::string_view recorded);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_PAGE_PAGE_FILES_H_
