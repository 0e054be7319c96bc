#ifndef TFOS_INFERENCE_SAVED_MODEL_SIGNATURE_H_
#define TFOS_INFERENCE_SAVED_MODEL_SIGNATURE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tfos/status.h"

namespace tfos::inference {

// What a SavedModel says of its inputs and outputs, read from its file saved_model.pb without
// TensorFlow and without protobuf.

/// A tensor of a signature.
struct TensorSpec {
  static constexpr std::int64_t kUnknown = -1;

  std::string name;  ///< In the signature.
  std::string edge;  ///< In the graph, such as "serving_default_x:0"; empty: not a plain tensor.
  int dtype = 0;     ///< A TF_DataType.
  /// None where the rank is not known; kUnknown for a dimension that is not.
  std::optional<std::vector<std::int64_t>> shape = std::vector<std::int64_t>();
};

/// Owner and lifetime: a value. Threads: readable from several.
struct Signature {
  std::string name;
  std::vector<TensorSpec> inputs;   ///< By name.
  std::vector<TensorSpec> outputs;  ///< By name.
};

/// A graph of a SavedModel.
struct MetaGraph {
  std::vector<std::string> tags;
  std::vector<Signature> signatures;  ///< By name, without TensorFlow's own ("__saved_model_...").
};

/// Reads the graphs of what a saved_model.pb contains. kBadInput for bytes that are none, and
/// beyond 4,096 graphs or signatures, 65,536 tensors of one, or 254 dimensions.
Result<std::vector<MetaGraph>> ReadSavedModel(std::span<const std::byte> saved_model);

/// The signature `name` of the graph with exactly these tags. kBadInput, with what there is.
Result<Signature> FindSignature(std::span<const MetaGraph> graphs,
                                std::span<const std::string> tags, std::string_view name);

/// What there is where a saved_model.pb was looked for.
struct NoSavedModel {
  std::string path;
  bool exists = false;
  bool is_directory = false;
  std::vector<std::string> below = {};  ///< Directories in it that have one.
};
/// Why that is not a SavedModel, and what would be one.
std::string WhyNoSavedModel(NoSavedModel found);

/// TensorFlow's name of a TF_DataType: "float32"; of an unknown one its number.
std::string DataTypeName(int dtype);
/// "float32[?, 784]".
std::string TypeText(const TensorSpec& spec);

}  // namespace tfos::inference

#endif  // TFOS_INFERENCE_SAVED_MODEL_SIGNATURE_H_
