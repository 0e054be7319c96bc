#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inference/saved_model_signature.h"

// Any bytes as a saved_model.pb: read or refused.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto graphs = tfos::inference::ReadSavedModel(std::as_bytes(std::span(data, size)));
  if (!graphs.ok()) return 0;
  for (const auto& graph : *graphs) {
    for (const auto& signature : graph.signatures) {
      for (const auto& tensor : signature.inputs) (void)tfos::inference::TypeText(tensor);
      if (!tfos::inference::FindSignature(*graphs, graph.tags, signature.name).ok() &&
          graphs->size() == 1) {
        __builtin_trap();
      }
    }
  }
  return 0;
}
