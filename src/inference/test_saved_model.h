#ifndef TFOS_INFERENCE_TEST_SAVED_MODEL_H_
#define TFOS_INFERENCE_TEST_SAVED_MODEL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Writes the messages of a saved_model.pb, for tests of what reads them.

namespace tfos::inference {

using TestShape = std::vector<std::int64_t>;
using TestMap = std::vector<std::pair<std::string, std::string>>;

inline void AppendTestVarint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

inline std::string NumberField(int field, std::int64_t value) {
  std::string message(1, static_cast<char>(field << 3));
  AppendTestVarint(message, static_cast<std::uint64_t>(value));
  return message;
}

inline std::string BytesField(int field, std::string_view value) {
  std::string message(1, static_cast<char>(field << 3 | 2));
  AppendTestVarint(message, value.size());
  message += value;
  return message;
}

inline std::string MapField(int field, const TestMap& entries) {
  std::string message;
  for (const auto& [key, value] : entries) {
    message += BytesField(field, BytesField(1, key) + BytesField(2, value));
  }
  return message;
}

/// A TensorInfo; without a shape its rank is unknown.
inline std::string TensorMessage(std::string_view edge, int dtype,
                                 const std::optional<TestShape>& shape) {
  std::string dimensions;
  if (shape) {
    for (const std::int64_t size : *shape) dimensions += BytesField(2, NumberField(1, size));
  } else {
    dimensions = NumberField(3, 1);
  }
  return BytesField(1, edge) + NumberField(2, dtype) + BytesField(3, dimensions);
}

inline std::string SignatureMessage(const TestMap& inputs, const TestMap& outputs) {
  return MapField(1, inputs) + MapField(2, outputs) + BytesField(3, "tensorflow/serving/predict");
}

/// A SavedModel of one graph.
inline std::string GraphMessage(const TestMap& signatures) {
  const std::string info = BytesField(4, "serve") + BytesField(5, "2.21.0");
  return NumberField(1, 1) +
         BytesField(2, BytesField(1, info) + BytesField(2, "a graph") + MapField(5, signatures));
}

inline std::string TestSavedModel() {
  const std::string predict = SignatureMessage(
      {{"pixels", TensorMessage("serving_default_pixels:0", 1, TestShape{-1, 784})},
       {"text", TensorMessage("serving_default_text:0", 7, TestShape{-1})}},
      {{"digit", TensorMessage("StatefulPartitionedCall:0", 9, std::nullopt)}});
  return GraphMessage(
      {{"serving_default", predict}, {"__saved_model_init_op", SignatureMessage({}, {})}});
}

}  // namespace tfos::inference

#endif  // TFOS_INFERENCE_TEST_SAVED_MODEL_H_
