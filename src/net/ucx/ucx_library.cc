#include "net/ucx/ucx_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/thread/mutex.h"

namespace tfos::net {
namespace {

constexpr char kFile[] = "libucp.so.0";
/// Another library of UCX, which libucp needs.
constexpr char kBelow[] = "libucs.so.0";
constexpr unsigned kOldestMajor = 1;
constexpr unsigned kOldestMinor = 14;
constexpr char kInstall[] =
    "install a UCX of 1.14 or newer on this host, or pip install \"libucx-cu12>=1.22\" (which has "
    "no InfiniBand and no RoCE)";

/// What libucx must find in the environment while it is loaded: it reads these then, and has no
/// function that sets them. Newer versions have other names for the same.
constexpr const char* kWishes[] = {"UCX_HANDLE_ERRORS=none",
                                   "UCX_ERROR_SIGNALS=", "UCX_DEBUG_SIGNO=0", "UCX_MEM_EVENTS=no",
                                   // What it warns of at the end of a member is what a member's
                                   // end leaves behind.
                                   "UCX_LOG_LEVEL=error"};

/// Loads the library with an environment that has our wishes, except those that the user has set.
/// The process's own is left as it is: others may read it meanwhile, and children inherit it.
void* LoadWithWishes(const std::string& file) {
  // A thread that asks for a variable at this moment may go on with this one; so each stays.
  static std::deque<std::vector<char*>>& kept = *new std::deque<std::vector<char*>>;
  std::vector<char*>& with_wishes = kept.emplace_back();
  char** const own = ::environ;
  for (char** entry = own; *entry != nullptr; ++entry) with_wishes.push_back(*entry);
  for (const char* wish : kWishes) {
    const std::string_view text(wish);
    if (::getenv(std::string(text.substr(0, text.find('='))).c_str()) == nullptr) {
      with_wishes.push_back(const_cast<char*>(wish));
    }
  }
  with_wishes.push_back(nullptr);
  std::atomic_ref<char**>(::environ).store(with_wishes.data());
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  // A thread that has set a variable meanwhile has made a new environment, which stays.
  char** ours = with_wishes.data();
  std::atomic_ref<char**>(::environ).compare_exchange_strong(ours, own);
  return library;
}

/// Where the loaded library is that `function` is of.
std::string FileOf(const void* function) {
  Dl_info found{};
  return ::dladdr(function, &found) != 0 && found.dli_fname != nullptr ? found.dli_fname : kFile;
}

/// UCX looks for its modules in a folder beside its libraries.
bool HasVerbs(const std::string& file) {
  std::error_code error;
  const auto library = std::filesystem::canonical(file, error);
  return !error && std::filesystem::exists(library.parent_path() / "ucx" / "libuct_ib.so.0", error);
}

/// Fills in what `library` has. Unsupported when it is too old.
Result<UcxLibrary> Examine(void* library) {
  UcxLibrary found;
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  decltype(&::ucp_get_version) get_version = nullptr;
  find(get_version, "ucp_get_version");
  if (get_version == nullptr) {
    return Status(ErrorKind::kUnsupported, "is not UCX: it has no ucp_get_version");
  }
  found.file = FileOf(reinterpret_cast<const void*>(get_version));
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  get_version(&major, &minor, &release);
  found.version = fmt::format("{}.{}.{}", major, minor, release);
  if (std::tie(major, minor) < std::tie(kOldestMajor, kOldestMinor)) {
    return Status(ErrorKind::kUnsupported,
                  fmt::format("{} is UCX {}, which may abort a process when a peer of it dies",
                              found.file, found.version));
  }
  find(found.config_read, "ucp_config_read");
  find(found.config_modify, "ucp_config_modify");
  find(found.config_release, "ucp_config_release");
  find(found.init_version, "ucp_init_version");
  find(found.cleanup, "ucp_cleanup");
  find(found.worker_create, "ucp_worker_create");
  find(found.worker_destroy, "ucp_worker_destroy");
  find(found.worker_get_address, "ucp_worker_get_address");
  find(found.worker_release_address, "ucp_worker_release_address");
  find(found.worker_get_efd, "ucp_worker_get_efd");
  find(found.worker_arm, "ucp_worker_arm");
  find(found.worker_progress, "ucp_worker_progress");
  find(found.worker_flush_nbx, "ucp_worker_flush_nbx");
  find(found.ep_create, "ucp_ep_create");
  find(found.ep_close_nbx, "ucp_ep_close_nbx");
  find(found.ep_print_info, "ucp_ep_print_info");
  find(found.tag_send_nbx, "ucp_tag_send_nbx");
  find(found.tag_send_sync_nbx, "ucp_tag_send_sync_nbx");
  find(found.tag_probe_nb, "ucp_tag_probe_nb");
  find(found.tag_msg_recv_nbx, "ucp_tag_msg_recv_nbx");
  find(found.request_check_status, "ucp_request_check_status");
  find(found.request_free, "ucp_request_free");
  find(found.status_string, "ucs_status_string");
  if (!missing.empty()) {
    return Status(ErrorKind::kUnsupported,
                  fmt::format("{} (UCX {}) has no {}", found.file, found.version, missing));
  }
  found.has_verbs = HasVerbs(found.file);
  return found;
}

/// A library of UCX that stays takes the place of the one that another libucp needs, by its name.
bool PartsStay() {
  void* const part = ::dlopen(kBelow, RTLD_NOW | RTLD_NOLOAD);
  if (part == nullptr) return false;
  ::dlclose(part);
  return true;
}

}  // namespace

Result<UcxLibrary> UcxLibrary::LoadFirst(std::span<const std::string> files) {
  std::string reasons;
  for (const std::string& file : files) {
    void* const library = LoadWithWishes(file);
    if (library == nullptr) {
      const char* const why = ::dlerror();
      reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", why == nullptr ? file : why);
      continue;
    }
    auto found = Examine(library);
    if (found.ok()) return found;
    reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", found.status().message());
    ::dlclose(library);
    if (PartsStay()) break;
  }
  return Status(ErrorKind::kUnsupported, fmt::format("no UCX: {}: {}", reasons, kInstall));
}

Result<UcxLibrary> UcxLibrary::Load(const std::string& packaged) {
  struct Loaded {
    Mutex mutex;
    std::optional<UcxLibrary> library TFOS_GUARDED_BY(mutex);
  };
  // What was loaded with such wishes stays loaded.
  static Loaded& loaded = *new Loaded;
  const MutexLock lock(loaded.mutex);
  if (!loaded.library) {
    const std::array<std::string, 2> files = {kFile, packaged};
    TFOS_ASSIGN_OR_RETURN(loaded.library,
                          LoadFirst(std::span(files).first(packaged.empty() ? 1 : 2)));
  }
  return *loaded.library;
}

Status UcxLibrary::StatusOf(ucs_status_t status, std::string doing) const {
  const bool gone = status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT ||
                    status == UCS_ERR_CANCELED || status == UCS_ERR_NOT_CONNECTED;
  return {gone ? ErrorKind::kReconnect : ErrorKind::kUnsupported,
          fmt::format("UCX: {}: {}", doing, status_string(status))};
}

}  // namespace tfos::net
