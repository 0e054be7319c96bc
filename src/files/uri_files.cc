#include "files/uri_files.h"

#include <algorithm>

#include "files/hadoop_streams.h"

namespace tfos::files {
namespace {

bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

bool MayFollowInScheme(char c) {
  return IsLetter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
}

}  // namespace

bool IsUri(std::string_view path) {
  const auto end = path.find("://");
  return end != std::string_view::npos && end > 0 && IsLetter(path[0]) &&
         std::ranges::all_of(path.substr(0, end), MayFollowInScheme);
}

Result<std::unique_ptr<records::ByteSource>> UriFiles::Open(const std::string& path,
                                                            std::uint64_t offset) const {
  if (!IsUri(path)) return local_.Open(path, offset);
  TFOS_ASSIGN_OR_RETURN(auto file, hadoop_.Open(path));
  return std::unique_ptr<records::ByteSource>(
      std::make_unique<HadoopSource>(path, std::move(file), offset));
}

Result<std::unique_ptr<records::ByteSink>> UriFiles::Create(
    const std::string& path, records::Directories directories) const {
  if (!IsUri(path)) return local_.Create(path, directories);
  TFOS_ASSIGN_OR_RETURN(auto file, directories == records::Directories::kMustBeThere
                                       ? hadoop_.CreateInDirectory(path)
                                       : hadoop_.Create(path));
  return std::unique_ptr<records::ByteSink>(std::make_unique<HadoopSink>(path, std::move(file)));
}

Result<std::uint64_t> UriFiles::SizeOf(const std::string& path) const {
  if (!IsUri(path)) return local_.SizeOf(path);
  TFOS_ASSIGN_OR_RETURN(const hadoop::FileInfo info, hadoop_.Stat(path));
  return info.bytes;
}

Status UriFiles::Rename(const std::string& from, const std::string& to) const {
  return IsUri(from) ? hadoop_.Rename(from, to) : local_.Rename(from, to);
}

Status UriFiles::Delete(const std::string& path) const {
  return IsUri(path) ? hadoop_.Delete(path, /*recursive=*/false) : local_.Delete(path);
}

}  // namespace tfos::files
