#ifndef TFOS_NET_UCX_LIBRARY_H_
#define TFOS_NET_UCX_LIBRARY_H_

#include <ucp/api/ucp.h>

#include <memory>
#include <string>

#include "tfos/status.h"

namespace tfos::net {

/// The functions of libucp, which is looked for when it is wanted (`libucp.so.0` of Debian's
/// libucx0, or where LD_LIBRARY_PATH points). Any version from 1.12 on.
///
/// It is loaded without what it would do to the process: no handlers of signals, which Python and
/// Java have their own of, and no patched `munmap`, which TensorFlow's allocators don't expect.
///
/// Owner and lifetime: the process keeps a library that was loaded. Threads: any.
class UcxLibrary {
 public:
  /// Errors: unsupported when there is none, or an older one.
  static Result<UcxLibrary> Load();

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

#endif  // TFOS_NET_UCX_LIBRARY_H_
