#ifndef TFOS_INFERENCE_COLUMN_TYPE_H_
#define TFOS_INFERENCE_COLUMN_TYPE_H_

#include <cstddef>
#include <optional>
#include <string>

#include "arrow/c_data.h"
#include "inference/saved_model_signature.h"

namespace tfos::inference {

/// What a column can give to a model, as far as its Arrow type tells. docs/inference.md has the
/// list.
struct ColumnType {
  enum class Kind { kNumbers, kText, kBinary, kOther };

  Kind kind = Kind::kOther;
  int dtype = 0;          ///< kNumbers: of an element, a TF_DataType.
  std::size_t depth = 0;  ///< Lists inside each other. A vector of Spark ML has one.
  std::string text;       ///< For messages: "list of float64".

  static ColumnType Of(const ArrowSchema& schema);
};

/// Why values of the column can't be the tensor; none if they can, as far as types tell. The first
/// dimension of the tensor is that of rows.
std::optional<std::string> Mismatch(const ColumnType& column, const TensorSpec& tensor);

/// Why lists of the column can't be the values of a ragged tensor.
std::optional<std::string> RaggedMismatch(const ColumnType& column, const TensorSpec& values,
                                          const TensorSpec& splits);

}  // namespace tfos::inference

#endif  // TFOS_INFERENCE_COLUMN_TYPE_H_
