#ifndef TFOS_INFERENCE_ENGINE_H_
#define TFOS_INFERENCE_ENGINE_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "arrow/c_data.h"
#include "arrow/export.h"
#include "inference/inference_plan.h"
#include "inference/input_tensors.h"
#include "tensorflow/saved_model.h"
#include "tfos/status.h"

namespace tfos::inference {

/// Runs rows of record batches through a signature of a SavedModel: one result for each, in order.
///
/// Owner and lifetime: owns the plan, borrows the model, which must outlive it.
/// Threads: `Run` may be called from several at a time.
/// Errors: kBadInput for rows that do not fit, nulls included, with column and row; those of
/// SavedModel::Run. Units: rows.
class Engine {
 public:
  struct RecordBatch {
    const ArrowSchema& schema;
    const ArrowArray& array;
    /// What keeps the array's memory. With it tensors refer to numbers where they are, as long as
    /// TensorFlow needs them; without it they are copied.
    std::shared_ptr<const void> memory = nullptr;
  };

  /// kBadInput when the graph lacks what the plan names.
  static Result<std::unique_ptr<Engine>> Create(const tensorflow::SavedModel& model,
                                                InferencePlan plan);

  /// The outputs for all rows of the batches, whose columns are those of the plan: a struct with a
  /// child for each. The model gets `batch_rows` rows at a time, also across batches, and in the
  /// end what is left. A signature with a number of rows of its own gets those; the last time rows
  /// of zeros fill up what is missing. `first_row` is the number that messages give to the first.
  Result<arrow::Field> Run(std::span<const RecordBatch> batches, std::uint64_t batch_rows,
                           std::uint64_t first_row) const;

 private:
  Engine(const tensorflow::SavedModel& model, InferencePlan plan)
      : model_(model), plan_(std::move(plan)) {}

  const tensorflow::SavedModel& model_;
  const InferencePlan plan_;
  std::vector<TF_Output> places_;  ///< Where MakeInputs' tensors go.
  std::vector<TF_Output> wanted_;
};

/// The struct of the plan's outputs, without values.
arrow::Field OutputType(const InferencePlan& plan);

}  // namespace tfos::inference

#endif  // TFOS_INFERENCE_ENGINE_H_
