#ifndef TFOS_NET_UCX_UCX_LIBRARY_H_
#define TFOS_NET_UCX_UCX_LIBRARY_H_

#include <ucp/api/ucp.h>

#include <memory>
#include <span>
#include <string>

#include "tfos/status.h"

namespace tfos::net {

/// The functions of libucp, of UCX 1.14 or newer. Builds of older ones that have assertions, as
/// Debian's 1.13, abort their process when a peer dies while they connect to it
/// (github.com/openucx/ucx/pull/8175).
///
/// It is loaded without what it would do to the process: no handlers of signals, which Python and
/// Java have their own of, and no patched `munmap`, which TensorFlow's allocators don't expect.
///
/// Owner and lifetime: the process keeps a library that was loaded. Threads: any.
class UcxLibrary {
 public:
  /// Loads the first that is new enough: `libucp.so.0` as the system finds it (in LD_LIBRARY_PATH,
  /// then among its libraries), then the file `packaged`, unless that is empty. The system's comes
  /// first because it may have InfiniBand and RoCE, which the Python package libucx-cu12 is built
  /// without. The process keeps the first that it gets, whatever is asked for later.
  ///
  /// Errors: unsupported when there is none, or only older ones; says what to install.
  static Result<UcxLibrary> Load(const std::string& packaged);
  /// The same of `files` alone, and not remembered. A library that is too old is gone again.
  static Result<UcxLibrary> LoadFirst(std::span<const std::string> files);

  std::string file;        ///< Where it is.
  std::string version;     ///< As `1.22.0`.
  bool has_verbs = false;  ///< It has its module for InfiniBand and RoCE.

  decltype(&::ucp_config_read) config_read = nullptr;
  decltype(&::ucp_config_modify) config_modify = nullptr;
  decltype(&::ucp_config_release) config_release = nullptr;
  decltype(&::ucp_init_version) init_version = nullptr;
  decltype(&::ucp_cleanup) cleanup = nullptr;
  decltype(&::ucp_worker_create) worker_create = nullptr;
  decltype(&::ucp_worker_destroy) worker_destroy = nullptr;
  decltype(&::ucp_worker_get_address) worker_get_address = nullptr;
  decltype(&::ucp_worker_release_address) worker_release_address = nullptr;
  decltype(&::ucp_worker_get_efd) worker_get_efd = nullptr;
  decltype(&::ucp_worker_arm) worker_arm = nullptr;
  decltype(&::ucp_worker_progress) worker_progress = nullptr;
  decltype(&::ucp_worker_flush_nbx) worker_flush_nbx = nullptr;
  decltype(&::ucp_ep_create) ep_create = nullptr;
  decltype(&::ucp_ep_close_nbx) ep_close_nbx = nullptr;
  decltype(&::ucp_ep_print_info) ep_print_info = nullptr;
  decltype(&::ucp_tag_send_nbx) tag_send_nbx = nullptr;
  decltype(&::ucp_tag_send_sync_nbx) tag_send_sync_nbx = nullptr;
  decltype(&::ucp_tag_probe_nb) tag_probe_nb = nullptr;
  decltype(&::ucp_tag_msg_recv_nbx) tag_msg_recv_nbx = nullptr;
  decltype(&::ucp_request_check_status) request_check_status = nullptr;
  decltype(&::ucp_request_free) request_free = nullptr;
  decltype(&::ucs_status_string) status_string = nullptr;

  /// A failure as a Status of its own.
  Status StatusOf(ucs_status_t status, std::string doing) const;
};

}  // namespace tfos::net

#endif  // TFOS_NET_UCX_UCX_LIBRARY_H_
