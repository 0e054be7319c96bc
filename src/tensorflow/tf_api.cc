#include "tensorflow/tf_api.h"

#include <dlfcn.h>

namespace tfos::tensorflow {
namespace {

constexpr const char* kFramework = "libtensorflow_framework.so.2";
constexpr const char* kAll = "libtensorflow_cc.so.2";

/// Looks functions up in a library that the process has loaded already.
class Library {
 public:
  Library(const char* name, std::string& error)
      : name_(name), error_(error), handle_(::dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {
    if (handle_ == nullptr) {
      Fail(std::string(name) + " is not loaded: import tensorflow (2.16 or newer) first");
    }
  }

  template <typename Function>
  void Find(const char* symbol, Function& function) {
    if (handle_ == nullptr) return;
    function = reinterpret_cast<Function>(::dlsym(handle_, symbol));
    if (function == nullptr) {
      Fail(std::string(name_) + " has no function " + symbol +
           ": tfos works with TensorFlow 2.16 to 2.21");
    }
  }

 private:
  void Fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
  }

  const char* const name_;
  std::string& error_;
  void* const handle_;  // Kept: what is found has to stay.
};

}  // namespace

std::optional<TfApi> TfApi::Find(std::string& error) {
  error.clear();
  TfApi api{};
  Library framework(kFramework, error);
  framework.Find("TF_NewStatus", api.NewStatus);
  framework.Find("TF_DeleteStatus", api.DeleteStatus);
  framework.Find("TF_SetStatus", api.SetStatus);
  framework.Find("TF_GetCode", api.GetCode);
  framework.Find("TF_Message", api.Message);
  framework.Find("TF_NewTensor", api.NewTensor);
  framework.Find("TF_DeleteTensor", api.DeleteTensor);
  framework.Find("TF_TensorData", api.TensorData);
  framework.Find("TF_TensorByteSize", api.TensorByteSize);
  framework.Find("TF_TensorType", api.TensorType);
  framework.Find("TF_DataTypeSize", api.DataTypeSize);
  framework.Find("TF_NumDims", api.NumDims);
  framework.Find("TF_Dim", api.Dim);
  framework.Find("TF_NewOpDefinitionBuilder", api.NewOpDefinitionBuilder);
  framework.Find("TF_OpDefinitionBuilderAddAttr", api.OpDefinitionBuilderAddAttr);
  framework.Find("TF_OpDefinitionBuilderAddInput", api.OpDefinitionBuilderAddInput);
  framework.Find("TF_OpDefinitionBuilderAddOutput", api.OpDefinitionBuilderAddOutput);
  framework.Find("TF_OpDefinitionBuilderSetIsStateful", api.OpDefinitionBuilderSetIsStateful);
  framework.Find("TF_OpDefinitionBuilderSetShapeInferenceFunction",
                 api.OpDefinitionBuilderSetShapeInferenceFunction);
  framework.Find("TF_ShapeInferenceContextSetUnknownShape",
                 api.ShapeInferenceContextSetUnknownShape);
  framework.Find("TF_RegisterOpDefinition", api.RegisterOpDefinition);
  framework.Find("TF_NewKernelBuilder", api.NewKernelBuilder);
  framework.Find("TF_RegisterKernelBuilder", api.RegisterKernelBuilder);
  framework.Find("TF_GetInput", api.GetInput);
  framework.Find("TF_NumInputs", api.NumInputs);
  framework.Find("TF_NumOutputs", api.NumOutputs);
  framework.Find("TF_ExpectedOutputDataType", api.ExpectedOutputDataType);
  framework.Find("TF_AllocateOutput", api.AllocateOutput);
  framework.Find("TF_SetOutput", api.SetOutput);
  framework.Find("TF_OpKernelConstruction_GetAttrString", api.GetAttrString);
  framework.Find("TF_OpKernelConstruction_GetAttrSize", api.GetAttrSize);
  framework.Find("TF_OpKernelConstruction_GetAttrInt64", api.GetAttrInt64);
  framework.Find("TF_OpKernelConstruction_Failure", api.OpKernelConstructionFailure);
  framework.Find("TF_OpKernelContext_Failure", api.OpKernelContextFailure);
  Library all(kAll, error);
  all.Find("TF_StringCopy", api.StringCopy);
  if (!error.empty()) return std::nullopt;
  return api;
}

}  // namespace tfos::tensorflow
