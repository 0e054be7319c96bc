#ifndef TFOS_TENSORFLOW_SESSION_API_H_
#define TFOS_TENSORFLOW_SESSION_API_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "tensorflow/tensor_api.h"
#include "tfos/status.h"

// The functions of TensorFlow's C API that run SavedModels, as tensorflow/c/c_api.h and
// tensorflow/c/tf_tstring.h declare them; found as those of TensorApi.

struct TF_Buffer;
struct TF_Graph;
struct TF_Library;
struct TF_Operation;
struct TF_Session;
struct TF_SessionOptions;

struct TF_Output {
  TF_Operation* oper;
  int index;
};

namespace tfos::tensorflow {

/// Owner and lifetime: pointers into libraries that are never unloaded. Threads: any, as
/// TensorFlow says of each. Errors: those of TensorFlow.
struct SessionApi : TensorApi {
  void (*StringInit)(TF_TString*);
  void (*StringDealloc)(TF_TString*);
  const char* (*StringData)(const TF_TString*);
  std::size_t (*StringSize)(const TF_TString*);

  TF_Library* (*LoadLibrary)(const char* file, TF_Status*);
  void (*DeleteLibraryHandle)(TF_Library*);
  TF_Buffer* (*NewBufferFromString)(const void* data, std::size_t bytes);
  void (*DeleteBuffer)(TF_Buffer*);
  TF_SessionOptions* (*NewSessionOptions)();
  void (*SetConfig)(TF_SessionOptions*, const void* proto, std::size_t bytes, TF_Status*);
  void (*DeleteSessionOptions)(TF_SessionOptions*);
  TF_Graph* (*NewGraph)();
  void (*DeleteGraph)(TF_Graph*);
  TF_Operation* (*GraphOperationByName)(TF_Graph*, const char* name);
  int (*OperationNumOutputs)(TF_Operation*);
  TF_Session* (*LoadSessionFromSavedModel)(const TF_SessionOptions*, const TF_Buffer* run_options,
                                           const char* directory, const char* const* tags,
                                           int count, TF_Graph*, TF_Buffer* meta_graph, TF_Status*);
  void (*CloseSession)(TF_Session*, TF_Status*);
  void (*DeleteSession)(TF_Session*, TF_Status*);
  void (*SessionRun)(TF_Session*, const TF_Buffer* run_options, const TF_Output* inputs,
                     TF_Tensor* const* input_values, int input_count, const TF_Output* outputs,
                     TF_Tensor** output_values, int output_count,
                     const TF_Operation* const* targets, int target_count, TF_Buffer* metadata,
                     TF_Status*);

  /// The functions of the TensorFlow in `directory`, the one of the Python package. It is loaded
  /// unless the process has it, and `import tensorflow` may follow.
  ///   kUnsupported  there is none, or it is of a version without one of the functions
  static Result<SessionApi> Load(const std::string& directory);
};

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_SESSION_API_H_
