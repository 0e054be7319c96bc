#ifndef TFOS_TENSORFLOW_TF_API_H_
#define TFOS_TENSORFLOW_TF_API_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "tensorflow/tensor_api.h"
#include "tensorflow/tf_codes.h"

// The functions of TensorFlow's C API that the ops use, as their headers declare them; found as
// those of TensorApi.

struct TF_KernelBuilder;
struct TF_OpDefinitionBuilder;
struct TF_OpKernelConstruction;
struct TF_OpKernelContext;
struct TF_ShapeInferenceContext;

namespace tfos::tensorflow {

/// Owner and lifetime: pointers into libraries that are never unloaded. Threads: any, as
/// TensorFlow says of each. Errors: those of TensorFlow.
struct TfApi : TensorApi {
  // tensorflow/c/tf_status.h
  void (*SetStatus)(TF_Status*, int code, const char* message);

  // tensorflow/c/tf_tensor.h
  std::size_t (*TensorByteSize)(const TF_Tensor*);
  TF_Tensor* (*AllocateTensor)(int dtype, const std::int64_t* dims, int rank, std::size_t bytes);

  // tensorflow/c/ops.h
  TF_OpDefinitionBuilder* (*NewOpDefinitionBuilder)(const char* name);
  void (*OpDefinitionBuilderAddAttr)(TF_OpDefinitionBuilder*, const char* spec);
  void (*OpDefinitionBuilderAddInput)(TF_OpDefinitionBuilder*, const char* spec);
  void (*OpDefinitionBuilderAddOutput)(TF_OpDefinitionBuilder*, const char* spec);
  void (*OpDefinitionBuilderSetIsStateful)(TF_OpDefinitionBuilder*, bool stateful);
  void (*OpDefinitionBuilderSetShapeInferenceFunction)(TF_OpDefinitionBuilder*,
                                                       void (*function)(TF_ShapeInferenceContext*,
                                                                        TF_Status*));
  void (*ShapeInferenceContextSetUnknownShape)(TF_ShapeInferenceContext*, TF_Status*);
  void (*RegisterOpDefinition)(TF_OpDefinitionBuilder*, TF_Status*);

  // tensorflow/c/kernels.h
  TF_KernelBuilder* (*NewKernelBuilder)(const char* op, const char* device,
                                        void* (*create)(TF_OpKernelConstruction*),
                                        void (*compute)(void*, TF_OpKernelContext*),
                                        void (*destroy)(void*));
  void (*RegisterKernelBuilder)(const char* name, TF_KernelBuilder*, TF_Status*);
  void (*GetInput)(TF_OpKernelContext*, int index, TF_Tensor**, TF_Status*);
  int (*NumInputs)(TF_OpKernelContext*);
  int (*NumOutputs)(TF_OpKernelContext*);
  int (*ExpectedOutputDataType)(TF_OpKernelContext*, int index);
  TF_Tensor* (*AllocateOutput)(TF_OpKernelContext*, int index, int dtype, const std::int64_t* dims,
                               int rank, std::size_t bytes, TF_Status*);
  void (*SetOutput)(TF_OpKernelContext*, int index, const TF_Tensor*, TF_Status*);
  void (*GetAttrString)(TF_OpKernelConstruction*, const char* name, char* value, std::size_t most,
                        TF_Status*);
  void (*GetAttrSize)(TF_OpKernelConstruction*, const char* name, std::int32_t* list,
                      std::int32_t* total, TF_Status*);
  void (*GetAttrInt64)(TF_OpKernelConstruction*, const char* name, std::int64_t* value, TF_Status*);
  void (*OpKernelConstructionFailure)(TF_OpKernelConstruction*, TF_Status*);
  void (*OpKernelContextFailure)(TF_OpKernelContext*, TF_Status*);

  /// Finds all of them, or says in `error` what is missing.
  static std::optional<TfApi> Find(std::string& error);
};

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_TF_API_H_
