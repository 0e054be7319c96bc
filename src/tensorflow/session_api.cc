#include "tensorflow/session_api.h"

#include <dlfcn.h>

#include "base/format.h"
#include "tensorflow/loaded_library.h"

namespace tfos::tensorflow {

Result<SessionApi> SessionApi::Load(const std::string& directory) {
  const std::string path = fmt::format("{}/{}", directory, kCompleteLibrary);
  // Local: with its symbols in everybody's sight a later `import tensorflow` crashes.
  if (::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL) == nullptr) {
    const char* const reason = ::dlerror();
    return Status(ErrorKind::kUnsupported,
                  fmt::format("TensorFlow can't be loaded ({}): install tensorflow 2.16 or newer",
                              reason == nullptr ? path : reason));
  }
  std::string error;
  SessionApi api{};
  LoadedLibrary framework(kFrameworkLibrary, error);
  LoadedLibrary complete(kCompleteLibrary, error);
  api.FindTensorFunctions(framework, complete);
  complete.Find("TF_StringInit", api.StringInit);
  complete.Find("TF_StringDealloc", api.StringDealloc);
  complete.Find("TF_StringGetDataPointer", api.StringData);
  complete.Find("TF_StringGetSize", api.StringSize);
  complete.Find("TF_LoadLibrary", api.LoadLibrary);
  complete.Find("TF_DeleteLibraryHandle", api.DeleteLibraryHandle);
  complete.Find("TF_NewBufferFromString", api.NewBufferFromString);
  complete.Find("TF_DeleteBuffer", api.DeleteBuffer);
  complete.Find("TF_NewSessionOptions", api.NewSessionOptions);
  complete.Find("TF_SetConfig", api.SetConfig);
  complete.Find("TF_DeleteSessionOptions", api.DeleteSessionOptions);
  complete.Find("TF_NewGraph", api.NewGraph);
  complete.Find("TF_DeleteGraph", api.DeleteGraph);
  complete.Find("TF_GraphOperationByName", api.GraphOperationByName);
  complete.Find("TF_OperationNumOutputs", api.OperationNumOutputs);
  complete.Find("TF_LoadSessionFromSavedModel", api.LoadSessionFromSavedModel);
  complete.Find("TF_CloseSession", api.CloseSession);
  complete.Find("TF_DeleteSession", api.DeleteSession);
  complete.Find("TF_SessionRun", api.SessionRun);
  if (!error.empty()) return Status(ErrorKind::kUnsupported, error);
  return api;
}

}  // namespace tfos::tensorflow
