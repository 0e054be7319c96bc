#include "tensorflow/ops/op_library.h"

#include <optional>
#include <string>

#include "tensorflow/ops/batch_source_table.h"

namespace tfos::tensorflow {
namespace {

/// What became of the registration. Written while the library is being loaded, before any op runs.
struct Library {
  std::string error;
  std::optional<TfApi> api = TfApi::Find(error);
};

Library& TheLibrary() {
  static auto* const library = new Library;  // Outlives whatever still runs at the end.
  return *library;
}

void* CreateNothing(TF_OpKernelConstruction* /*construction*/) { return nullptr; }
void DestroyNothing(void* /*kernel*/) {}

void Define(const OpDefinition& definition, TF_Status* status) {
  const TfApi& api = Api();
  TF_OpDefinitionBuilder* op = api.NewOpDefinitionBuilder(definition.name);
  for (const char* attribute : definition.attributes) {
    api.OpDefinitionBuilderAddAttr(op, attribute);
  }
  for (const char* input : definition.inputs) api.OpDefinitionBuilderAddInput(op, input);
  for (const char* output : definition.outputs) api.OpDefinitionBuilderAddOutput(op, output);
  api.OpDefinitionBuilderSetIsStateful(op, true);
  api.OpDefinitionBuilderSetShapeInferenceFunction(op, api.ShapeInferenceContextSetUnknownShape);
  api.RegisterOpDefinition(op, status);
}

}  // namespace

const TfApi& Api() { return *TheLibrary().api; }

TensorPointer InputOf(TF_OpKernelContext* context, int index, TF_Status* status) {
  TF_Tensor* input = nullptr;
  Api().GetInput(context, index, &input, status);
  return TensorPointer(Api().GetCode(status) == kTfOk ? input : nullptr);
}

void RegisterOp(const OpDefinition& op, ComputeFunction compute, CreateFunction create,
                DestroyFunction destroy) {
  Library& library = TheLibrary();
  if (!library.error.empty()) return;
  const StatusPointer status(Api().NewStatus());
  Define(op, status.get());
  if (Api().GetCode(status.get()) == kTfOk) {
    Api().RegisterKernelBuilder(
        op.name,
        Api().NewKernelBuilder(op.name, "CPU", create != nullptr ? create : &CreateNothing, compute,
                               destroy != nullptr ? destroy : &DestroyNothing),
        status.get());
  }
  if (Api().GetCode(status.get()) != kTfOk) library.error = Api().Message(status.get());
}

}  // namespace tfos::tensorflow

const char* tfos_ops_error(void) {
  const std::string& error = tfos::tensorflow::TheLibrary().error;
  return error.empty() ? nullptr : error.c_str();
}
