#include "net/ucx/ucx_worker.h"

#include <memory>
#include <utility>

#include "net/ucx/ucx_engine.h"
#include "net/ucx/ucx_library.h"
#include "net/ucx/ucx_stream.h"

namespace tfos::net {
namespace {

class Worker final : public UcxWorker {
 public:
  explicit Worker(const UcxLibrary& library) : engine_(library) {}

  Status Start(const Options& options) { return engine_.Start(options.peers, options.transports); }

  std::span<const std::byte> address() const override { return engine_.address(); }
  Result<std::unique_ptr<Stream>> Open(std::span<const std::byte> address, std::uint64_t ours,
                                       std::uint64_t theirs) override {
    TFOS_RETURN_IF_ERROR(engine_.Check());
    auto stream = std::make_unique<UcxStream>(engine_, ours, theirs);
    TFOS_RETURN_IF_ERROR(stream->Connect(address));
    return std::unique_ptr<Stream>(std::move(stream));
  }

  bool Progress() override { return engine_.Progress(); }
  bool Arm() override { return engine_.Arm(); }
  int fd() const override { return engine_.fd(); }
  void Flush(std::chrono::milliseconds patience) override { engine_.Flush(patience); }

 private:
  UcxEngine engine_;
};

}  // namespace

Result<FoundUcx> FindUcx(const std::string& packaged) {
  TFOS_ASSIGN_OR_RETURN(const UcxLibrary library, UcxLibrary::Load(packaged));
  return FoundUcx{.file = library.file, .version = library.version, .has_verbs = library.has_verbs};
}

Result<std::unique_ptr<UcxWorker>> UcxWorker::Create(const Options& options) {
  TFOS_ASSIGN_OR_RETURN(const UcxLibrary library, UcxLibrary::Load(options.packaged));
  auto worker = std::make_unique<Worker>(library);
  TFOS_RETURN_IF_ERROR(worker->Start(options));
  return std::unique_ptr<UcxWorker>(std::move(worker));
}

}  // namespace tfos::net
