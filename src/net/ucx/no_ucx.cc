#include "net/ucx/ucx_worker.h"

namespace tfos::net {
namespace {

Status WithoutUcx() {
  return {ErrorKind::kUnsupported,
          "this tfos was built without UCX: build it where the Python package libucx-cu12 or "
          "libucx-dev is installed"};
}

}  // namespace

Result<FoundUcx> FindUcx(const std::string& /*packaged*/) { return WithoutUcx(); }

Result<std::unique_ptr<UcxWorker>> UcxWorker::Create(const Options& /*options*/) {
  return WithoutUcx();
}

}  // namespace tfos::net
