#include "net/ucx_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/format.h"

namespace tfos::net {
namespace {

constexpr char kFile[] = "libucp.so.0";

/// What libucx has to find in the environment while it is loaded: it reads these then, and has no
/// function that sets them. Newer versions have other names for the same.
constexpr const char* kWishes[] = {"UCX_HANDLE_ERRORS=none",
                                   "UCX_ERROR_SIGNALS=", "UCX_DEBUG_SIGNO=0", "UCX_MEM_EVENTS=no",
                                   // What it warns of at the end of a member is what a member's
                                   // end leaves behind.
                                   "UCX_LOG_LEVEL=error"};

/// Loads the library with an environment that has our wishes, except those that the user has set.
/// The process's own is left as it is: others may read it meanwhile, and children inherit it.
void* LoadWithWishes() {
  // Who asks for a variable at this moment may go on with this one; so each stays for good.
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
  void* const library = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL);
  // Who has set a variable meanwhile has made an environment of its own, which stays.
  char** ours = with_wishes.data();
  std::atomic_ref<char**>(::environ).compare_exchange_strong(ours, own);
  return library;
}

/// Once for the process: what was loaded with such wishes stays loaded.
Result<void*> Library() {
  static std::mutex mutex;
  static void* library = nullptr;
  const std::lock_guard lock(mutex);
  if (library == nullptr) library = LoadWithWishes();
  if (library != nullptr) return library;
  return Status(ErrorKind::kUnsupported,
                fmt::format("UCX can't be loaded: {}: install libucx0 (Debian), ucx (Red Hat), or "
                            "the wheel libucx-cu12 with its lib in LD_LIBRARY_PATH",
                            ::dlerror()));
}

}  // namespace

Result<UcxLibrary> UcxLibrary::Load() {
  TFOS_ASSIGN_OR_RETURN(void* const library, Library());
  std::string missing;
  const auto find = [&](auto& function, const char* name) {
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr && missing.empty()) missing = name;
  };
  UcxLibrary found;
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
  if (missing.empty()) return found;
  return Status(
      ErrorKind::kUnsupported,
      fmt::format("the {} of this host is too old: it has no {}; UCX 1.12 has", kFile, missing));
}

Status UcxLibrary::StatusOf(ucs_status_t status, std::string doing) const {
  const bool gone = status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_ENDPOINT_TIMEOUT ||
                    status == UCS_ERR_CANCELED || status == UCS_ERR_NOT_CONNECTED;
  return {gone ? ErrorKind::kReconnect : ErrorKind::kUnsupported,
          fmt::format("UCX: {}: {}", doing, status_string(status))};
}

}  // namespace tfos::net
