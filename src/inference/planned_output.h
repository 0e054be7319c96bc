#ifndef TFOS_INFERENCE_PLANNED_OUTPUT_H_
#define TFOS_INFERENCE_PLANNED_OUTPUT_H_

#include <string>

#include "inference/saved_model_signature.h"

namespace tfos::inference {

/// An output of a signature, and the column that it becomes.
struct PlannedOutput {
  TensorSpec tensor;
  std::string column;
  bool binary = false;
};

}  // namespace tfos::inference

#endif  // TFOS_INFERENCE_PLANNED_OUTPUT_H_
