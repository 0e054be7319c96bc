#ifndef TFOS_TENSORFLOW_RUN_FOR_C_H_
#define TFOS_TENSORFLOW_RUN_FOR_C_H_

#include <cstdint>
#include <cstring>

#include "base/thread/guarded.h"
#include "tensorflow/tf_code_of.h"
#include "tensorflow/tf_codes.h"
#include "tfos/status.h"

namespace tfos::tensorflow {

/// Runs `work`, which returns a Status, and returns the code that `code_of` makes of it. Where
/// `work` failed, `message` gets the Status' text, which the caller frees; it stays null where
/// there is no memory for the text.
template <typename Work, typename CodeOf>
std::int32_t RunForC(char** message, Work work, CodeOf code_of) {
  std::int32_t code = kTfOk;
  *message = nullptr;
  Guarded(
      [&] {
        const Status status = work();
        if (status.ok()) return;
        code = code_of(status);
        *message = ::strdup(status.ToString().c_str());
      },
      [&](ErrorKind kind, const char* what) {
        code = TfCodeOf(kind);
        *message = ::strdup(what);
      });
  return code;
}

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_RUN_FOR_C_H_
