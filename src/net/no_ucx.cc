#include "net/ucx_worker.h"

namespace tfos::net {

Result<std::unique_ptr<UcxWorker>> UcxWorker::Create(const Options& /*options*/) {
  return Status(ErrorKind::kUnsupported,
                "this tfos was built without UCX: build it where libucx-dev is installed");
}

}  // namespace tfos::net
