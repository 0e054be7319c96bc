#include "control/host/clusters/cluster_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string_view>

#include "base/format.h"

namespace tfos::control {
namespace {

constexpr std::string_view kEnding = ".json";
constexpr mode_t kFolderMode = 0700;
constexpr mode_t kFileMode = 0600;
constexpr mode_t kOfOthers = 0077;

Status Refusal(std::string_view path, std::string_view why) {
  return Status(ErrorKind::kBadInput, fmt::format("{} is not used: {}", path, why));
}

/// Whether what was opened is this user's alone.
Status CheckOwner(int fd, const std::string& path, mode_t kind) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) return Status::FromErrno(errno, "look at " + path);
  if ((facts.st_mode & S_IFMT) != kind) return Refusal(path, "it is of another kind");
  if (facts.st_uid != ::geteuid()) {
    return Refusal(path, fmt::format("it belongs to the user {}", facts.st_uid));
  }
  if ((facts.st_mode & kOfOthers) != 0) {
    return Refusal(path, fmt::format("others may use it, too (mode {:o})", facts.st_mode & 07777));
  }
  return Status::Ok();
}

Result<UniqueFd> OpenFolder(const std::string& path) {
  UniqueFd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid() && (errno == ELOOP || errno == ENOTDIR)) {
    return Refusal(path, "it is a link, or no folder");
  }
  if (!folder.valid()) return Status::FromErrno(errno, "open the folder " + path);
  TFOS_RETURN_IF_ERROR(CheckOwner(folder.get(), path, S_IFDIR));
  return folder;
}

Status WriteAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0) return Status::FromErrno(errno, "write the cluster's file");
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return Status::Ok();
}

/// The file, open and locked. It appears under its name as a whole, and with its lock.
Result<UniqueFd> WriteLocked(int folder, const std::string& name, std::string_view text) {
  const std::string unfinished = fmt::format(".{}.{}", name, ::getpid());
  // One of an earlier process of this number, which was killed.
  ::unlinkat(folder, unfinished.c_str(), 0);
  UniqueFd file(::openat(folder, unfinished.c_str(),
                         O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kFileMode));
  if (!file.valid()) return Status::FromErrno(errno, "make the cluster's file");
  Status done = ::flock(file.get(), LOCK_EX | LOCK_NB) == 0
                    ? WriteAll(file.get(), text)
                    : Status::FromErrno(errno, "lock the cluster's file");
  if (done.ok() && ::renameat(folder, unfinished.c_str(), folder, name.c_str()) != 0) {
    done = Status::FromErrno(errno, "name the cluster's file");
  }
  if (!done.ok()) {
    ::unlinkat(folder, unfinished.c_str(), 0);
    return done;
  }
  return file;
}

Result<std::string> ReadAll(int fd, const std::string& path) {
  std::string text(ClusterRecord::kMostBytes + 1, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(fd, text.data() + size, text.size() - size);
    if (got < 0) return Status::FromErrno(errno, "read " + path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  return text;
}

/// A cluster's record; nullopt when the one that wrote it has ended.
Result<std::optional<ClusterRecord>> ReadRecord(int folder, const std::string& name,
                                                const std::string& path) {
  // A pipe of this name must not hold up anybody.
  UniqueFd file(::openat(folder, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid() && errno == ELOOP) return Refusal(path, "it is a link");
  if (!file.valid()) return Status::FromErrno(errno, "open " + path);
  TFOS_RETURN_IF_ERROR(CheckOwner(file.get(), path, S_IFREG));
  if (::flock(file.get(), LOCK_SH | LOCK_NB) == 0) {
    ::unlinkat(folder, name.c_str(), 0);
    return std::optional<ClusterRecord>();
  }
  TFOS_ASSIGN_OR_RETURN(const std::string text, ReadAll(file.get(), path));
  auto record = ClusterRecord::Parse(text);
  if (!record.ok()) return record.status().Annotate("read " + path);
  return std::optional<ClusterRecord>(*std::move(record));
}

std::vector<std::string> FileNames(int folder) {
  std::vector<std::string> names;
  const auto close = [](DIR* open) { ::closedir(open); };
  // It takes a descriptor of its own.
  const int own = ::fcntl(folder, F_DUPFD_CLOEXEC, 0);
  const std::unique_ptr<DIR, decltype(close)> listing(own < 0 ? nullptr : ::fdopendir(own), close);
  if (listing == nullptr) return names;
  while (const dirent* entry = ::readdir(listing.get())) {
    const std::string_view name = entry->d_name;
    if (!name.starts_with('.') && name.ends_with(kEnding)) names.emplace_back(name);
  }
  std::ranges::sort(names);
  return names;
}

void FindIn(const std::string& path, FoundClusters& found) {
  const Result<UniqueFd> folder = OpenFolder(path);
  if (!folder.ok()) {
    // That none is there is no news.
    const bool missing = folder.status().code() == std::errc::no_such_file_or_directory;
    if (!missing) found.refused.push_back(folder.status().ToString());
    return;
  }
  for (const std::string& name : FileNames(folder->get())) {
    auto record = ReadRecord(folder->get(), name, fmt::format("{}/{}", path, name));
    if (!record.ok()) {
      found.refused.push_back(record.status().ToString());
    } else if (!record->has_value()) {
      found.dead.push_back(name.substr(0, name.size() - kEnding.size()));
    } else {
      found.clusters.push_back(**std::move(record));
    }
  }
}

}  // namespace

std::vector<std::string> RuntimeFolders() {
  const auto variable = [](const char* name) {
    const char* const value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string chosen = variable("TFOS_RUNTIME_DIR"); !chosen.empty()) return {chosen};
  std::vector<std::string> folders;
  if (const std::string of_user = variable("XDG_RUNTIME_DIR"); of_user.starts_with('/')) {
    folders.push_back(of_user + "/tfos");
  }
  folders.push_back(fmt::format("/tmp/tfos-{}", ::geteuid()));
  return folders;
}

Result<ClusterFile> ClusterFile::Write(const std::vector<std::string>& folders,
                                       const ClusterRecord& record) {
  Status trouble(ErrorKind::kBadInput, "there is no folder for it");
  for (const std::string& path : folders) {
    if (::mkdir(path.c_str(), kFolderMode) != 0 && errno != EEXIST) {
      trouble = Status::FromErrno(errno, "make the folder " + path);
      continue;
    }
    const Result<UniqueFd> folder = OpenFolder(path);
    trouble = folder.status();
    if (!folder.ok()) continue;
    const std::string name = record.cluster_id + std::string(kEnding);
    Result<UniqueFd> file = WriteLocked(folder->get(), name, record.Serialize());
    if (file.ok()) return ClusterFile(fmt::format("{}/{}", path, name), std::move(file).value());
    trouble = file.status();
  }
  return trouble;
}

ClusterFile::~ClusterFile() {
  if (!path_.empty() && IsThere()) ::unlink(path_.c_str());
}

bool ClusterFile::IsThere() const {
  struct stat named {};
  struct stat held {};
  return ::lstat(path_.c_str(), &named) == 0 && ::fstat(lock_.get(), &held) == 0 &&
         named.st_ino == held.st_ino && named.st_dev == held.st_dev;
}

FoundClusters FindClusters(const std::vector<std::string>& folders) {
  FoundClusters found;
  for (const std::string& folder : folders) FindIn(folder, found);
  std::ranges::stable_sort(found.clusters, {}, &ClusterRecord::started_ms);
  return found;
}

}  // namespace tfos::control
