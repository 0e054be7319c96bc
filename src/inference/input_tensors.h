#ifndef TFOS_INFERENCE_INPUT_TENSORS_H_
#define TFOS_INFERENCE_INPUT_TENSORS_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "chunk/chunk.h"
#include "inference/inference_plan.h"
#include "tensorflow/saved_model.h"
#include "tfos/status.h"

namespace tfos::inference {

/// Rows as a chunk of the feed has them: the columns of the plan, aligned.
struct RowBlock {
  std::shared_ptr<const void> memory;  ///< Of the columns.
  std::vector<chunk::ColumnView> columns;
  std::uint64_t first_row = 0;  ///< The number that messages give to its first row.
};

/// Makes the tensors of a run, in the order of the plan's inputs and the splits of a ragged one
/// behind its values. Numbers of a single block that are of the wanted type stay where they are.
/// With less than `rows` rows in the blocks what is missing is zeros and empty strings.
///
/// Errors: kBadInput, with column, row, and what was expected and found.
Result<std::vector<tensorflow::SessionTensor>> MakeInputs(const tensorflow::SessionApi& api,
                                                          const InferencePlan& plan,
                                                          std::span<const RowBlock> blocks,
                                                          std::uint64_t rows);

}  // namespace tfos::inference

#endif  // TFOS_INFERENCE_INPUT_TENSORS_H_
