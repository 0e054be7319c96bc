#ifndef TFOS_CONTROL_HOST_GPUS_GPU_LEASE_H_
#define TFOS_CONTROL_HOST_GPUS_GPU_LEASE_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/unique_fd.h"
#include "control/messages/launch_messages.h"
#include "tfos/status.h"

namespace tfos::control {

struct Gpu {
  std::string index;  ///< As CUDA_VISIBLE_DEVICES takes it, for example "0".
  std::string uuid;
  /// Processes compute on it: of tfos nodes, or others that no lease knows of.
  bool in_use = false;
};

/// Which GPUs this host has.
class GpuInventory {
 public:
  virtual ~GpuInventory() = default;
  /// Empty when there are none.
  virtual boost::asio::awaitable<Result<std::vector<Gpu>>> List(
      boost::asio::any_io_executor executor) = 0;
};

/// Asks `nvidia-smi`, twice: for the GPUs and for the processes that compute on them. A host
/// without that program has no GPUs. Threads: the executor's, which serves others meanwhile.
class NvidiaSmiInventory final : public GpuInventory {
 public:
  /// `patience`: for each answer. Without persistence mode the driver initializes each GPU first.
  explicit NvidiaSmiInventory(std::chrono::milliseconds patience = std::chrono::seconds(30))
      : patience_(patience) {}

  boost::asio::awaitable<Result<std::vector<Gpu>>> List(
      boost::asio::any_io_executor executor) override;

 private:
  std::chrono::milliseconds patience_;
};

/// The GPUs in what `nvidia-smi --query-gpu=index,uuid --format=csv,noheader` prints.
Result<std::vector<Gpu>> ParseGpuList(const std::string& text);

/// Those of `gpus` that are in `visible`, in its order: as CUDA reads CUDA_VISIBLE_DEVICES, whose
/// list ends at the first word that fits none. A slice of a GPU (MIG), which nvidia-smi does not
/// list, is one by the name that it has there.
std::vector<Gpu> VisibleGpus(const std::vector<Gpu>& gpus, std::string_view visible);

/// Marks the GPUs that are in what `nvidia-smi --query-compute-apps=gpu_uuid --format=csv,noheader`
/// prints, one line for each process.
void MarkGpusInUse(const std::string& text, std::vector<Gpu>& gpus);

/// GPUs that one node may use.
///
/// Owner and lifetime: move-only. The lease lasts as long as the object and dies with its process,
/// however that ends; nothing is left on disk. It covers one network namespace: on containers
/// without the host's network, let Spark assign the GPUs.
///
/// How: each GPU has twenty slots, each the name of an abstract Unix socket. Binding one is atomic,
/// and the kernel unbinds it with its last descriptor. A whole GPU takes all slots, a share as many
/// as it needs: rounded up, or down where Spark has assigned the GPU and so bounds the sum. Whether
/// a GPU that is in use has a tfos node on it, only one at a time finds out: the one that holds
/// one more name, its probe, for that moment.
class GpuLease {
 public:
  GpuLease(GpuLease&&) = default;
  GpuLease& operator=(GpuLease&&) = default;

  /// Takes what `request` asks for among `of_host`, at once or not at all. A `fraction` of 0 means
  /// whole GPUs that nobody shares. A GPU that is in use while no tfos node holds any of it belongs
  /// to a foreign process and is left out.
  ///
  /// If Spark has assigned some, those are taken, whoever uses them. Spark may give them to another
  /// task while a node has them: in place of such, free ones of the same executor are taken.
  /// `of_host` then only tells their UUIDs, and may be empty.
  ///
  /// Errors: bad input for a request that can never be met; retry-later when others hold the GPUs
  /// (the message says how many there are, which are taken and which foreign processes use).
  static Result<GpuLease> Take(const GpuRequest& request, const std::vector<Gpu>& of_host);

  /// Indices in the order of their leasing; empty when none were asked for.
  const std::vector<std::string>& indices() const { return indices_; }

  /// Whether others have those that Spark assigned, and the request allowed that.
  bool shared() const { return shared_; }

  /// The sockets that are the lease: a process that inherits all of them holds it, too, until it
  /// ends. Borrowed. None where the GPUs are shared with those that have leased them.
  std::vector<int> descriptors() const;

 private:
  GpuLease() = default;

  std::vector<std::string> indices_;
  std::vector<UniqueFd> slots_;
  bool shared_ = false;
};

/// Takes what `request` asks for among the GPUs of `inventory`: of those that CUDA_VISIBLE_DEVICES
/// leaves to this process, unless Spark has assigned some. GPUs that others hold may be free
/// in a moment, when their cluster has just ended: it tries again for `patience` after it has
/// learnt which there are, unless `cancelled`. Errors: those of the inventory, except where Spark
/// has assigned some, and of `GpuLease::Take`.
boost::asio::awaitable<Result<GpuLease>> TakeGpus(
    boost::asio::any_io_executor executor, const GpuRequest& request, GpuInventory& inventory,
    std::function<bool()> cancelled, std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace tfos::control

#endif  // TFOS_CONTROL_HOST_GPUS_GPU_LEASE_H_
