#ifndef TFOS_TENSORFLOW_LOADED_LIBRARY_H_
#define TFOS_TENSORFLOW_LOADED_LIBRARY_H_

#include <dlfcn.h>

#include <string>
#include <utility>

namespace tfos::tensorflow {

/// Kernels, ops and tensors.
inline constexpr const char* kFrameworkLibrary = "libtensorflow_framework.so.2";
/// Sessions, file systems, strings.
inline constexpr const char* kCompleteLibrary = "libtensorflow_cc.so.2";

/// Looks functions up in a library that the process has loaded already.
///
/// Owner and lifetime: keeps the library loaded for ever, as what is found must stay; borrows
/// `error`. Threads: one at a time. Errors: the first one is left in `error`.
class LoadedLibrary {
 public:
  LoadedLibrary(const char* name, std::string& error)
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
  void* const handle_;
};

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_LOADED_LIBRARY_H_
