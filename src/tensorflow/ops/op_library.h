#ifndef TFOS_TENSORFLOW_OPS_OP_LIBRARY_H_
#define TFOS_TENSORFLOW_OPS_OP_LIBRARY_H_

#include <memory>
#include <utility>
#include <vector>

#include "base/thread/guarded.h"
#include "tensorflow/tf_api.h"
#include "tensorflow/tf_code_of.h"

// What the ops of the library share: TensorFlow's functions, and how an op is registered.
//
// Threads: registration happens in static constructors, while TensorFlow loads the library; the
// rest may be used from any. Errors: the first one of the registration is kept for
// tfos_ops_error().

namespace tfos::tensorflow {

/// The functions of the process's TensorFlow. Only for ops, which run if there is one.
const TfApi& Api();

struct DeleteStatus {
  void operator()(TF_Status* status) const { Api().DeleteStatus(status); }
};
using StatusPointer = std::unique_ptr<TF_Status, DeleteStatus>;

struct DeleteTensor {
  void operator()(TF_Tensor* tensor) const { Api().DeleteTensor(tensor); }
};
using TensorPointer = std::unique_ptr<TF_Tensor, DeleteTensor>;

/// The op's input `index`; null with `status` set when there is none.
TensorPointer InputOf(TF_OpKernelContext* context, int index, TF_Status* status);

/// An op as TensorFlow's specifications have it, such as "source: int64". Stateful always: else
/// equal calls would be merged, and calls with constant inputs done once and for all.
struct OpDefinition {
  const char* name;
  std::vector<const char*> attributes = {};
  std::vector<const char*> inputs;
  std::vector<const char*> outputs;
};

/// Runs `work` for TensorFlow: what it throws becomes the failure in `status`.
template <typename Work>
void GuardedInto(TF_Status* status, Work&& work) {
  Guarded(std::forward<Work>(work),
          [&](ErrorKind kind, const char* what) { Api().SetStatus(status, TfCodeOf(kind), what); });
}

using ComputeFunction = void (*)(void* kernel, TF_OpKernelContext* context);
using CreateFunction = void* (*)(TF_OpKernelConstruction* construction);
using DestroyFunction = void (*)(void* kernel);

/// Registers an op with a kernel for CPUs. Nothing happens after the first failure.
void RegisterOp(const OpDefinition& op, ComputeFunction compute, CreateFunction create = nullptr,
                DestroyFunction destroy = nullptr);

/// A compute function made of one that leaves its outcome in a status, for kernels without state.
template <void (*kCompute)(TF_OpKernelContext*, TF_Status*)>
void Compute(void* /*kernel*/, TF_OpKernelContext* context) {
  const StatusPointer status(Api().NewStatus());
  GuardedInto(status.get(), [&] { kCompute(context, status.get()); });
  if (Api().GetCode(status.get()) != kTfOk) Api().OpKernelContextFailure(context, status.get());
}

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_OPS_OP_LIBRARY_H_
