// The ops
//
//   TfosAwaitBatch(source, index) -> waiting  waits for the next batch, but for a short while only;
//                                             with index 0 it begins a pass over the dataset before
//   TfosNextBatch(source) -> components       waits for it and hands its memory to TensorFlow
//   TfosOpenPass(source) -> pass              makes a source for one pass, where each has its own
//   TfosClosePass(source) -> was              takes it back
//
// They block the thread that runs them: kernels of the C API that finish later than their compute
// function crash. Nor can such a kernel know that it was cancelled (an iterator was dropped while
// it prefetches), and so a program repeats the first op, being cancelled in between, until the
// last one has something to give.

#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "tensorflow/batch_registry.h"
#include "tensorflow/batch_source.h"
#include "tensorflow/tf_api.h"

namespace tfos::tensorflow {
namespace {

constexpr const char* kAwaitOp = "TfosAwaitBatch";
constexpr const char* kNextOp = "TfosNextBatch";
constexpr const char* kOpenOp = "TfosOpenPass";
constexpr const char* kCloseOp = "TfosClosePass";

/// What became of the registration. Written while the library is being loaded, before any op runs.
struct Library {
  std::string error;
  std::optional<TfApi> api = TfApi::Find(error);
};

Library& TheLibrary() {
  static auto* const library = new Library;  // Outlives whatever still runs at the end.
  return *library;
}

const TfApi& Api() { return *TheLibrary().api; }

struct DeleteStatus {
  void operator()(TF_Status* status) const { Api().DeleteStatus(status); }
};
using StatusPointer = std::unique_ptr<TF_Status, DeleteStatus>;

struct DeleteTensor {
  void operator()(TF_Tensor* tensor) const { Api().DeleteTensor(tensor); }
};
using TensorPointer = std::unique_ptr<TF_Tensor, DeleteTensor>;

/// 0 for what the chunk format does not define.
int TypeOf(std::int32_t dtype) {
  // In the order of docs/formats/chunk.md.
  constexpr int kTypes[] = {kTfString, kTfBool,  kTfInt8,   kTfInt16,     kTfInt32,
                            kTfInt64,  kTfUint8, kTfUint16, kTfUint32,    kTfUint64,
                            kTfHalf,   kTfFloat, kTfDouble, kTfComplex64, kTfComplex128};
  constexpr auto kCount = static_cast<std::int32_t>(std::size(kTypes));
  return dtype >= 0 && dtype < kCount ? kTypes[dtype] : 0;
}

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

/// Called when the last user of a tensor lets go of it, on any thread.
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
  const int type = TypeOf(tensor.dtype);
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
  TF_Tensor* input = nullptr;
  Api().GetInput(context, 0, &input, status);
  if (Api().GetCode(status) != kTfOk) return 0;
  const TensorPointer handle(input);
  return *static_cast<const std::int64_t*>(Api().TensorData(input));
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
  auto source = BatchRegistry::Process().Find(handle);
  // That is how a dataset ends, and so it does when its feed is no more.
  if (!source) Api().SetStatus(status, kTfOutOfRange, "the feed of this dataset was closed");
  return source;
}

void AwaitBatch(TF_OpKernelContext* context, TF_Status* status) {
  const auto source = SourceOf(context, status);
  if (!source) return;
  TF_Tensor* input = nullptr;
  Api().GetInput(context, 1, &input, status);
  if (Api().GetCode(status) != kTfOk) return;
  const TensorPointer index(input);
  const TensorPointer output(
      Api().AllocateOutput(context, 0, kTfBool, nullptr, 0, sizeof(bool), status));
  if (Api().GetCode(status) != kTfOk) return;
  const bool first = *static_cast<const std::int64_t*>(Api().TensorData(input)) == 0;
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
  const std::int64_t handle = BatchRegistry::Process().Add(pass);
  pass.release(pass.context);  // The registry keeps it.
  SetHandle(context, handle, status);
  if (Api().GetCode(status) != kTfOk) BatchRegistry::Process().Remove(handle);
}

void ClosePass(TF_OpKernelContext* context, TF_Status* status) {
  const std::int64_t handle = HandleOf(context, status);
  if (Api().GetCode(status) != kTfOk) return;
  BatchRegistry::Process().Remove(handle);
  SetHandle(context, handle, status);
}

/// A compute function made of one that leaves its outcome in a status.
template <void (*kCompute)(TF_OpKernelContext*, TF_Status*)>
void Compute(void* /*kernel*/, TF_OpKernelContext* context) {
  const StatusPointer status(Api().NewStatus());
  kCompute(context, status.get());
  if (Api().GetCode(status.get()) != kTfOk) Api().OpKernelContextFailure(context, status.get());
}

void* Create(TF_OpKernelConstruction* /*construction*/) { return nullptr; }
void Destroy(void* /*kernel*/) {}

struct OpNames {
  const char* name;
  const char* attribute;     ///< May be null.
  const char* second_input;  ///< Likewise.
  const char* output;
};

void RegisterOp(const OpNames& names, void (*compute)(void*, TF_OpKernelContext*),
                TF_Status* status) {
  const TfApi& api = Api();
  TF_OpDefinitionBuilder* op = api.NewOpDefinitionBuilder(names.name);
  if (names.attribute != nullptr) api.OpDefinitionBuilderAddAttr(op, names.attribute);
  api.OpDefinitionBuilderAddInput(op, "source: int64");
  if (names.second_input != nullptr) api.OpDefinitionBuilderAddInput(op, names.second_input);
  api.OpDefinitionBuilderAddOutput(op, names.output);
  // Else equal calls would be merged, and calls with constant inputs done once and for all.
  api.OpDefinitionBuilderSetIsStateful(op, true);
  api.OpDefinitionBuilderSetShapeInferenceFunction(op, api.ShapeInferenceContextSetUnknownShape);
  api.RegisterOpDefinition(op, status);
  if (api.GetCode(status) != kTfOk) return;
  api.RegisterKernelBuilder(
      names.name, api.NewKernelBuilder(names.name, "CPU", &Create, compute, &Destroy), status);
}

/// TensorFlow takes up the ops that are registered while it loads a library.
[[gnu::constructor]] void RegisterWhenLoaded() {
  Library& library = TheLibrary();
  if (!library.api) return;
  const StatusPointer status(library.api->NewStatus());
  const auto add = [&](const OpNames& names, void (*compute)(void*, TF_OpKernelContext*)) {
    if (library.api->GetCode(status.get()) != kTfOk) return;
    RegisterOp(names, compute, status.get());
  };
  add({kAwaitOp, nullptr, "index: int64", "waiting: bool"}, &Compute<&AwaitBatch>);
  add({kNextOp, "component_types: list(type) >= 1", nullptr, "components: component_types"},
      &Compute<&NextBatch>);
  add({kOpenOp, nullptr, nullptr, "pass: int64"}, &Compute<&OpenPass>);
  add({kCloseOp, nullptr, nullptr, "was: int64"}, &Compute<&ClosePass>);
  if (library.api->GetCode(status.get()) != kTfOk) {
    library.error = library.api->Message(status.get());
  }
}

}  // namespace
}  // namespace tfos::tensorflow

const char* tfos_ops_error(void) {
  const std::string& error = tfos::tensorflow::TheLibrary().error;
  return error.empty() ? nullptr : error.c_str();
}
