#ifndef TFOS_TENSORFLOW_TENSOR_API_H_
#define TFOS_TENSORFLOW_TENSOR_API_H_

#include <cstddef>
#include <cstdint>

#include "tensorflow/loaded_library.h"

// The functions of TensorFlow's C API for statuses and tensors, as its headers declare them, for
// all that use it: ops and sessions. They are found in the TensorFlow that the process has loaded;
// none is linked, so one build serves all versions.

struct TF_Status;
struct TF_Tensor;
struct TF_TString;

namespace tfos::tensorflow {

/// Bytes of a TF_TString, of tensorflow/c/tf_tstring.h; string tensors are arrays of them.
inline constexpr std::size_t kTStringBytes = 24;

/// Owner and lifetime: pointers into libraries that are never unloaded. Threads: any, as
/// TensorFlow says of each. Errors: those of TensorFlow.
struct TensorApi {
  // tensorflow/c/tf_status.h
  TF_Status* (*NewStatus)();
  void (*DeleteStatus)(TF_Status*);
  int (*GetCode)(const TF_Status*);
  const char* (*Message)(const TF_Status*);

  // tensorflow/c/tf_tensor.h
  TF_Tensor* (*NewTensor)(int dtype, const std::int64_t* dims, int rank, void* data,
                          std::size_t bytes, void (*deallocate)(void*, std::size_t, void*),
                          void* argument);
  void (*DeleteTensor)(TF_Tensor*);
  void* (*TensorData)(const TF_Tensor*);
  int (*TensorType)(const TF_Tensor*);
  std::size_t (*DataTypeSize)(int dtype);
  int (*NumDims)(const TF_Tensor*);
  std::int64_t (*Dim)(const TF_Tensor*, int index);

  // tensorflow/c/tf_tstring.h
  void (*StringCopy)(TF_TString* to, const char* from, std::size_t bytes);

  /// What is missing is said as LoadedLibrary does.
  void FindTensorFunctions(LoadedLibrary& framework, LoadedLibrary& complete) {
    framework.Find("TF_NewStatus", NewStatus);
    framework.Find("TF_DeleteStatus", DeleteStatus);
    framework.Find("TF_GetCode", GetCode);
    framework.Find("TF_Message", Message);
    framework.Find("TF_NewTensor", NewTensor);
    framework.Find("TF_DeleteTensor", DeleteTensor);
    framework.Find("TF_TensorData", TensorData);
    framework.Find("TF_TensorType", TensorType);
    framework.Find("TF_DataTypeSize", DataTypeSize);
    framework.Find("TF_NumDims", NumDims);
    framework.Find("TF_Dim", Dim);
    complete.Find("TF_StringCopy", StringCopy);
  }
};

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_TENSOR_API_H_
