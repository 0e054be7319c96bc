#include "control/page/page_files.h"

#include <algorithm>

#include "base/format.h"

namespace tfos::control {
namespace {

constexpr std::string_view kFolder = "/page/";
constexpr std::string_view kIndex = "index.html";
/// A report loads nothing, from nowhere.
constexpr std::string_view kReportPolicy =
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">";

std::string_view ContentType(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "text/javascript; charset=utf-8";
}

const EmbeddedFile* Find(std::string_view name) {
  const auto found = std::ranges::find(EmbeddedFiles(), name, &EmbeddedFile::name);
  return found == EmbeddedFiles().end() ? nullptr : &*found;
}

void Replace(std::string& text, const std::string& what, std::string_view with) {
  const std::size_t at = text.find(what);
  if (at != std::string::npos) text.replace(at, what.size(), with);
}

/// Text that can't end the element of HTML that it is in, as JSON.
std::string ForScript(std::string_view json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

}  // namespace

std::optional<PageFile> FindPageFile(std::string_view target) {
  std::string_view name = kIndex;
  if (target != "/") {
    if (!target.starts_with(kFolder)) return std::nullopt;
    name = target.substr(kFolder.size());
    if (name == kIndex) return std::nullopt;  // Its links begin one level higher.
  }
  const EmbeddedFile* const file = Find(name);
  if (file == nullptr) return std::nullopt;
  return PageFile{.content_type = ContentType(name), .bytes = file->bytes};
}

std::string ReportHtml(std::string_view recorded) {
  std::string html(Find(kIndex)->bytes);
  for (const EmbeddedFile& file : EmbeddedFiles()) {
    if (file.name.ends_with(".css")) {
      Replace(html, fmt::format("<link rel=\"stylesheet\" href=\"page/{}\">", file.name),
              fmt::format("<style>\n{}</style>", file.bytes));
    } else if (file.name.ends_with(".js")) {
      Replace(html, fmt::format("<script src=\"page/{}\"></script>", file.name),
              fmt::format("<script>\n{}</script>", file.bytes));
    }
  }
  Replace(html, "<link rel=\"icon\" href=\"page/icon.svg\">\n", "");
  Replace(html, "<meta charset=\"utf-8\">",
          fmt::format("<meta charset=\"utf-8\">\n{}", kReportPolicy));
  Replace(html, "<script type=\"application/json\" id=\"recorded\"></script>",
          fmt::format("<script type=\"application/json\" id=\"recorded\">{}</script>",
                      ForScript(recorded)));
  return html;
}

}  // namespace tfos::control
