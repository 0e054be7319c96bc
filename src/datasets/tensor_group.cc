#include "datasets/tensor_group.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/thread/mutex.h"
#include "collective/fused.h"
#include "tensorflow/run_for_c.h"
#include "tensorflow/tf_code_of.h"
#include "tensorflow/tf_codes.h"

namespace tfos::datasets {
namespace {

using collective::DType;
using collective::Exchanged;

/// The element type for a TF_DataType of tensorflow/c/tf_datatype.h.
std::optional<DType> DTypeOf(std::int32_t tf_data_type) {
  switch (tf_data_type) {
    case tensorflow::kTfFloat:
      return DType::kFloat32;
    case tensorflow::kTfDouble:
      return DType::kFloat64;
    case tensorflow::kTfInt32:
      return DType::kInt32;
    case tensorflow::kTfInt64:
      return DType::kInt64;
    case tensorflow::kTfBfloat16:
      return DType::kBfloat16;
    case tensorflow::kTfHalf:
      return DType::kFloat16;
    default:
      return std::nullopt;
  }
}

std::vector<Exchanged> ExchangedOf(const tfos_exchanged* tensors, std::int32_t count) {
  std::vector<Exchanged> all;
  for (const tfos_exchanged& tensor : std::span(tensors, static_cast<std::size_t>(count))) {
    all.push_back({.from = {static_cast<const std::byte*>(tensor.from), tensor.bytes},
                   .to = {static_cast<std::byte*>(tensor.to), tensor.bytes}});
  }
  return all;
}

template <typename Work>
std::int32_t Run(char** message, Work work) {
  return tensorflow::RunForC(
      message, work, [](const Status& status) { return tensorflow::TfCodeOf(status.kind()); });
}

}  // namespace

struct TensorGroup::Shared {
  explicit Shared(std::unique_ptr<collective::Group> joined)
      : group(std::move(joined)), fused(*group) {}

  const std::unique_ptr<collective::Group> group;
  Mutex mutex;
  collective::Fused fused TFOS_GUARDED_BY(mutex);
  std::atomic<std::int64_t> references = 1;

  static Shared& Of(void* context) { return *static_cast<Shared*>(context); }
  static void Retain(void* context) { ++Of(context).references; }
  static void Release(void* context) {
    if (--Of(context).references == 0) delete static_cast<Shared*>(context);
  }

  static std::int32_t AllReduce(void* context, const char* name, std::int32_t tf_dtype,
                                std::int32_t tf_wire, std::int32_t average, double weight,
                                const tfos_exchanged* tensors, std::int32_t count, double* total,
                                char** message) {
    return Run(message, [&]() -> Status {
      const auto dtype = DTypeOf(tf_dtype);
      if (!dtype) {
        return {ErrorKind::kBadInput,
                fmt::format("TensorFlow's type {} can't be summed up", tf_dtype)};
      }
      const auto wire = DTypeOf(tf_wire);
      if (tf_wire != 0 && !wire) {
        return {ErrorKind::kBadInput, fmt::format("TensorFlow's type {} can't be sent", tf_wire)};
      }
      Shared& shared = Of(context);
      const MutexLock lock(shared.mutex);
      TFOS_ASSIGN_OR_RETURN(*total, shared.fused.AllReduce(
                                        *dtype, average != 0 ? std::optional(weight) : std::nullopt,
                                        ExchangedOf(tensors, count), name, wire));
      return {};
    });
  }

  static std::int32_t Broadcast(void* context, const char* name, std::int32_t root,
                                const tfos_exchanged* tensors, std::int32_t count, char** message) {
    return Run(message, [&] {
      Shared& shared = Of(context);
      const MutexLock lock(shared.mutex);
      return shared.fused.Broadcast(static_cast<std::uint32_t>(root), ExchangedOf(tensors, count),
                                    name);
    });
  }

  static std::int32_t AllGather(void* context, const char* name, const void* from,
                                std::uint64_t bytes, tfos_allocate_function allocate, void* room,
                                std::uint64_t* before, char** message) {
    return Run(message, [&] {
      return Of(context).group->Transact([&](collective::Group::Transaction& all) -> Status {
        TFOS_ASSIGN_OR_RETURN(const auto sizes, all.GatherSizes(bytes, name));
        // Their sum does not wrap: the group has refused those.
        const std::size_t total = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
        void* to = nullptr;
        if (allocate(room, total, &to) != tensorflow::kTfOk) {
          return {ErrorKind::kBadInput, fmt::format("no room for {} bytes of all nodes", total)};
        }
        const auto own = sizes.begin() + all.place();
        *before = std::accumulate(sizes.begin(), own, std::size_t{0});
        auto* const gathered = static_cast<std::byte*>(to);
        if (bytes > 0) std::memcpy(gathered + *before, from, bytes);
        return all.AllGather(sizes, {gathered, total}, name);
      });
    });
  }

  static void FreeMessage(char* message) { std::free(message); }
};

Result<std::unique_ptr<TensorGroup>> TensorGroup::Join(collective::GroupOptions options) {
  TFOS_ASSIGN_OR_RETURN(auto group, collective::Group::Join(std::move(options)));
  return std::unique_ptr<TensorGroup>(new TensorGroup(new Shared(std::move(group))));
}

TensorGroup::~TensorGroup() {
  if (feed_ != nullptr) feed_->SetWhileWaiting({});
  if (remove_ != nullptr) remove_(handle_);
  group().Close("its program has left the group");
  Shared::Release(shared_);
}

collective::Group& TensorGroup::group() const { return *shared_->group; }

void TensorGroup::FollowOthersWhileWaiting(std::shared_ptr<node::NodeFeed> feed) {
  Shared::Retain(shared_);
  const std::shared_ptr<Shared> shared(shared_, &Shared::Release);
  feed_ = std::move(feed);
  feed_->SetWhileWaiting([shared] { shared->group->FollowOthers(); });
}

Result<std::int64_t> TensorGroup::Register(tfos_register_group_function add,
                                           tfos_unregister_group_function remove) {
  if (remove_ != nullptr) return handle_;
  const tfos_tensor_group table = {.version = TFOS_TENSOR_GROUP_VERSION,
                                   .context = shared_,
                                   .retain = &Shared::Retain,
                                   .release = &Shared::Release,
                                   .all_reduce = &Shared::AllReduce,
                                   .broadcast = &Shared::Broadcast,
                                   .all_gather = &Shared::AllGather,
                                   .free_message = &Shared::FreeMessage};
  handle_ = add(&table);
  if (handle_ == 0) {
    return Status(ErrorKind::kUnsupported, "the ops library is of another version of tfos");
  }
  remove_ = remove;
  return handle_;
}

}  // namespace tfos::datasets
