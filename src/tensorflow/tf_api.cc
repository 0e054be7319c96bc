#include "tensorflow/tf_api.h"

#include "tensorflow/loaded_library.h"

namespace tfos::tensorflow {

std::optional<TfApi> TfApi::Find(std::string& error) {
  error.clear();
  TfApi api{};
  LoadedLibrary framework(kFrameworkLibrary, error);
  LoadedLibrary complete(kCompleteLibrary, error);
  api.FindTensorFunctions(framework, complete);
  framework.Find("TF_SetStatus", api.SetStatus);
  framework.Find("TF_TensorByteSize", api.TensorByteSize);
  framework.Find("TF_AllocateTensor", api.AllocateTensor);
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
  if (!error.empty()) return std::nullopt;
  return api;
}

}  // namespace tfos::tensorflow
