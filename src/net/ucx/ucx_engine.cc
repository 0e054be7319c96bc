#include "net/ucx/ucx_engine.h"

#include <poll.h>

#include "base/logging.h"
#include "base/time/deadline.h"

namespace tfos::net {
namespace {

/// What is used of UCX's interface is in this version of it; the headers may be newer than the
/// library.
constexpr unsigned kUsedMajor = 1;
constexpr unsigned kUsedMinor = 14;

}  // namespace

Status UcxEngine::Start(std::size_t peers, const std::string& transports) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = library_.config_read(nullptr, nullptr, &config);
  if (status != UCS_OK) return library_.StatusOf(status, "read its configuration");
  if (!transports.empty()) {
    status = library_.config_modify(config, "TLS", transports.c_str());
  }
  if (status == UCS_OK) {
    ucp_params_t parameters{};
    parameters.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS;
    parameters.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    parameters.estimated_num_eps = peers;
    status = library_.init_version(kUsedMajor, kUsedMinor, &parameters, config, &context_);
  }
  library_.config_release(config);
  if (status != UCS_OK) return library_.StatusOf(status, "start");
  ucp_worker_params_t parameters{};
  parameters.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  parameters.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  status = library_.worker_create(context_, &parameters, &worker_);
  if (status == UCS_OK) status = library_.worker_get_efd(worker_, &fd_);
  if (status == UCS_OK) {
    status = library_.worker_get_address(worker_, &address_, &address_bytes_);
  }
  return status == UCS_OK ? Status() : library_.StatusOf(status, "make a worker");
}

UcxEngine::~UcxEngine() {
  if (abandoned_) return;
  if (address_ != nullptr) library_.worker_release_address(worker_, address_);
  if (worker_ != nullptr) library_.worker_destroy(worker_);
  if (context_ != nullptr) library_.cleanup(context_);
}

Status UcxEngine::Check() const {
  if (!abandoned_) return {};
  return {ErrorKind::kReconnect, "UCX hangs: it has not closed another connection"};
}

bool UcxEngine::Await(void* request, std::chrono::milliseconds patience) {
  if (request == nullptr || UCS_PTR_IS_ERR(request)) return true;
  if (abandoned_) return false;
  const Deadline deadline = Deadline::After(patience);
  while (library_.request_check_status(request) == UCS_INPROGRESS) {
    if (deadline.passed()) return false;  // Also while others' messages come.
    if (Progress()) continue;
    if (!Arm()) continue;
    // Some things UCX looks for without being woken up.
    constexpr int kLookMilliseconds = 10;
    pollfd entry{.fd = fd_, .events = POLLIN, .revents = 0};
    ::poll(&entry, 1, kLookMilliseconds);
  }
  library_.request_free(request);
  return true;
}

void UcxEngine::Flush(std::chrono::milliseconds patience) {
  if (abandoned_) return;
  const ucp_request_param_t none{};
  void* const request = library_.worker_flush_nbx(worker_, &none);
  if (!Await(request, patience)) {
    LogDebug("UCX has not sent all within {} ms", patience.count());
    library_.request_free(request);
  }
}

}  // namespace tfos::net
