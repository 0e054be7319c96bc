// The ops
//
//   TfosAwaitBatch(source, index) -> waiting  waits for the next batch, only for a short while;
//                                             with index 0 it begins a pass over the dataset before
//   TfosNextBatch(source) -> components       waits for it and hands its memory to TensorFlow
//   TfosOpenPass(source) -> pass              makes a source for one pass, where each has its own
//   TfosClosePass(source) -> was              takes it back
//
// They block the thread that runs them: kernels of the C API that finish later than their compute
// function crash. Nor can such a kernel know that it was cancelled (an iterator was dropped while
// it prefetches). So a program repeats the first op, being cancelled in between, until the
// last one has something to give.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "tensorflow/chunk_type.h"
#include "tensorflow/ops/batch_source_table.h"
#include "tensorflow/ops/op_library.h"
#include "tensorflow/ops/registry.h"

namespace tfos::tensorflow {
namespace {

constexpr const char* kAwaitOp = "TfosAwaitBatch";
constexpr const char* kNextOp = "TfosNextBatch";
constexpr const char* kOpenOp = "TfosOpenPass";
constexpr const char* kCloseOp = "TfosClosePass";

using BatchSourceReference = Reference<tfos_batch_source>;
using Sources = Registry<tfos_batch_source>;

/// A batch that goes back to its source.
class Batch {
 public:
  explicit Batch(const BatchSourceReference& source) : source_(source) {
    source_->next(source_->context, &batch_);
  }
  ~Batch() { source_->release_batch(&batch_); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  const tfos_batch* operator->() const { return &batch_; }

 private:
  const BatchSourceReference& source_;
  tfos_batch batch_{};
};

/// Called when the last user of a tensor lets go of it, on any thread. Where that is Python, it
/// holds the GIL meanwhile: this library knows nothing of Python, and TensorFlow does not release
/// it.
struct Owner {
  void* owner;
  void (*release)(void*);

  static void Deallocate(void* /*data*/, std::size_t /*bytes*/, void* argument) {
    const std::unique_ptr<Owner> owner(static_cast<Owner*>(argument));
    if (owner->owner != nullptr) owner->release(owner->owner);
  }
};

std::int64_t CountOf(const tfos_tensor& tensor) {
  std::int64_t count = 1;
  for (std::int32_t i = 0; i < tensor.rank; ++i) count *= tensor.dims[i];
  return count;
}

void CopyStrings(const tfos_tensor& tensor, TF_Tensor* to) {
  auto* strings = static_cast<std::byte*>(Api().TensorData(to));
  const std::int64_t count = CountOf(tensor);
  for (std::int64_t i = 0; i < count; ++i) {
    Api().StringCopy(reinterpret_cast<TF_TString*>(strings + i * kTStringBytes),
                     tensor.strings[i].data, tensor.strings[i].bytes);
  }
}

void SetOutput(TF_OpKernelContext* context, int index, tfos_tensor& tensor, TF_Status* status) {
  const int type = TypeOfChunk(tensor.dtype);
  if (type != Api().ExpectedOutputDataType(context, index)) {
    Api().SetStatus(status, kTfInternal, "a batch has another type than the op was made for");
    return;
  }
  if (type == kTfString || tensor.bytes == 0) {
    const std::size_t bytes =
        type == kTfString ? static_cast<std::size_t>(CountOf(tensor)) * kTStringBytes : 0;
    const TensorPointer output(
        Api().AllocateOutput(context, index, type, tensor.dims, tensor.rank, bytes, status));
    if (type == kTfString && Api().GetCode(status) == kTfOk) CopyStrings(tensor, output.get());
    return;
  }
  auto owner = std::make_unique<Owner>(Owner{tensor.owner, tensor.release});
  tensor.owner = nullptr;
  const TensorPointer output(Api().NewTensor(type, tensor.dims, tensor.rank,
                                             const_cast<void*>(tensor.data), tensor.bytes,
                                             &Owner::Deallocate, owner.release()));
  if (output == nullptr) {
    Api().SetStatus(status, kTfInternal, "a batch has not as many bytes as its shape says");
    return;
  }
  Api().SetOutput(context, index, output.get(), status);
}

/// The handle that is the op's first input; 0, which is none, with `status` set on failure.
std::int64_t HandleOf(TF_OpKernelContext* context, TF_Status* status) {
  const TensorPointer input = InputOf(context, 0, status);
  if (input == nullptr) return 0;
  return *static_cast<const std::int64_t*>(Api().TensorData(input.get()));
}

void SetHandle(TF_OpKernelContext* context, std::int64_t handle, TF_Status* status) {
  const TensorPointer output(
      Api().AllocateOutput(context, 0, kTfInt64, nullptr, 0, sizeof handle, status));
  if (Api().GetCode(status) != kTfOk) return;
  *static_cast<std::int64_t*>(Api().TensorData(output.get())) = handle;
}

/// The batch source that the op's input names; none with `status` set when there is none.
std::optional<BatchSourceReference> SourceOf(TF_OpKernelContext* context, TF_Status* status) {
  const std::int64_t handle = HandleOf(context, status);
  if (Api().GetCode(status) != kTfOk) return std::nullopt;
  auto source = Sources::Process().Find(handle);
  // That is how a dataset ends, and so it does when its feed is no more.
  if (!source) Api().SetStatus(status, kTfOutOfRange, "the feed of this dataset was closed");
  return source;
}

void AwaitBatch(TF_OpKernelContext* context, TF_Status* status) {
  const auto source = SourceOf(context, status);
  if (!source) return;
  const TensorPointer input = InputOf(context, 1, status);
  if (input == nullptr) return;
  const TensorPointer output(
      Api().AllocateOutput(context, 0, kTfBool, nullptr, 0, sizeof(bool), status));
  if (Api().GetCode(status) != kTfOk) return;
  const bool first = *static_cast<const std::int64_t*>(Api().TensorData(input.get())) == 0;
  if (first) (*source)->begin((*source)->context);
  *static_cast<bool*>(Api().TensorData(output.get())) = (*source)->await((*source)->context) != 0;
}

void NextBatch(TF_OpKernelContext* context, TF_Status* status) {
  const auto source = SourceOf(context, status);
  if (!source) return;
  const Batch batch(*source);
  if (batch->code != kTfOk) {
    Api().SetStatus(status, batch->code, batch->message);
    return;
  }
  if (batch->tensors != Api().NumOutputs(context)) {
    Api().SetStatus(status, kTfInternal, "a batch has other columns than the op was made for");
    return;
  }
  for (int i = 0; i < batch->tensors; ++i) {
    SetOutput(context, i, batch->tensor[i], status);
    if (Api().GetCode(status) != kTfOk) return;
  }
}

void OpenPass(TF_OpKernelContext* context, TF_Status* status) {
  const auto source = SourceOf(context, status);
  if (!source) return;
  if ((*source)->open == nullptr) {
    Api().SetStatus(status, kTfInternal, "this source has one position for all passes");
    return;
  }
  tfos_batch_source pass{};
  if ((*source)->open((*source)->context, &pass) == 0) {
    Api().SetStatus(status, kTfResourceExhausted, "no memory to read the dataset");
    return;
  }
  const std::int64_t handle = Sources::Process().Add(pass, TFOS_BATCH_SOURCE_VERSION);
  pass.release(pass.context);  // The registry keeps it.
  SetHandle(context, handle, status);
  if (Api().GetCode(status) != kTfOk) Sources::Process().Remove(handle);
}

void ClosePass(TF_OpKernelContext* context, TF_Status* status) {
  const std::int64_t handle = HandleOf(context, status);
  if (Api().GetCode(status) != kTfOk) return;
  Sources::Process().Remove(handle);
  SetHandle(context, handle, status);
}

/// TensorFlow takes up the ops that are registered while it loads a library.
[[gnu::constructor]] void RegisterWhenLoaded() {
  RegisterOp(
      {.name = kAwaitOp, .inputs = {"source: int64", "index: int64"}, .outputs = {"waiting: bool"}},
      &Compute<&AwaitBatch>);
  RegisterOp({.name = kNextOp,
              .attributes = {"component_types: list(type) >= 1"},
              .inputs = {"source: int64"},
              .outputs = {"components: component_types"}},
             &Compute<&NextBatch>);
  RegisterOp({.name = kOpenOp, .inputs = {"source: int64"}, .outputs = {"pass: int64"}},
             &Compute<&OpenPass>);
  RegisterOp({.name = kCloseOp, .inputs = {"source: int64"}, .outputs = {"was: int64"}},
             &Compute<&ClosePass>);
}

}  // namespace
}  // namespace tfos::tensorflow

std::int64_t tfos_register_batch_source(const tfos_batch_source* source) {
  return tfos::tensorflow::Registered(*source, TFOS_BATCH_SOURCE_VERSION);
}

void tfos_unregister_batch_source(std::int64_t handle) {
  tfos::tensorflow::Registry<tfos_batch_source>::Process().Remove(handle);
}
