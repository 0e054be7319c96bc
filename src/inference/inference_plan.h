#ifndef TFOS_INFERENCE_INFERENCE_PLAN_H_
#define TFOS_INFERENCE_INFERENCE_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arrow/c_data.h"
#include "inference/planned_output.h"
#include "inference/saved_model_signature.h"
#include "tfos/status.h"

namespace tfos::inference {

/// Which column goes where.
struct InputMapping {
  std::string column;
  std::string tensor;  ///< An input of the signature.
  std::string splits;  ///< Of a ragged tensor: the input with its row splits. Empty: it is dense.
};

/// Which output becomes which column.
struct OutputMapping {
  std::string tensor;  ///< An output of the signature.
  std::string column;
};

struct Mapping {
  std::vector<InputMapping> inputs;    ///< Empty: each input has the column of its name.
  std::vector<OutputMapping> outputs;  ///< Empty: all, under their names.
  /// Outputs whose strings are bytes of any kind. Those of others must be UTF-8.
  std::vector<std::string> binary;
};

struct PlannedInput {
  std::size_t column = 0;  ///< In InferencePlan::columns.
  TensorSpec tensor;
  std::optional<TensorSpec> splits;
};

/// How rows of given columns go through a signature: all that can be checked before the first row.
struct InferencePlan {
  std::vector<std::string> columns;  ///< That are needed; record batches have exactly these.
  std::vector<PlannedInput> inputs;
  std::vector<PlannedOutput> outputs;
  /// How many rows each call must have, as the signature says; none: any number.
  std::optional<std::uint64_t> fixed_rows;

  /// `table` is the struct of the columns that there are. kBadInput when they do not fit: the
  /// message lists all that was expected and found.
  static Result<InferencePlan> Make(const Signature& signature, const Mapping& mapping,
                                    const ArrowSchema& table);
};

}  // namespace tfos::inference

#endif  // TFOS_INFERENCE_INFERENCE_PLAN_H_
