#ifndef TFOS_PARAMETER_SERVER_MODEL_RULE_H_
#define TFOS_PARAMETER_SERVER_MODEL_RULE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "parameter_server/model/layout.h"
#include "tfos/status.h"

namespace tfos::parameter_server {

/// What a server does with what is pushed, as docs/formats/parameter-server-protocol.md numbers it.
enum class Combiner : std::uint8_t {
  kDelta = 1,       ///< Changes are added.
  kMean = 2,        ///< ((n - 1) * server + new) / n
  kUpdateMean = 3,  ///< (server + new) / 2, and the first one as it is.
  kSgd = 4,         ///< Gradients: descent with or without momentum.
  kAdam = 5,        ///< Gradients: Adam, as Keras has it.
};

/// By the name that workers give: delta, mean, update-mean, sgd or adam. Bad input for another.
/// Threads: any.
Result<Combiner> CombinerFrom(std::string_view name);

/// A combiner and its numbers; those of others are 0.
struct Rule {
  Combiner combiner = Combiner::kDelta;
  bool nesterov = false;      ///< Of kSgd with momentum.
  std::uint32_t workers = 0;  ///< The n of kMean, and of variables that kDelta averages.
  double learning_rate = 0;
  double momentum = 0;
  double beta_1 = 0;
  double beta_2 = 0;
  double epsilon = 0;

  friend bool operator==(const Rule&, const Rule&) = default;

  /// How many values the server keeps for each element besides the element itself: 0 to 2.
  std::size_t slots() const;
  /// Bad input for numbers that make no sense, and for types that the rule is not for.
  Status Check(std::span<const Variable> variables) const;
};

/// Elements of one type: what was pushed, the server's values, and its slots for them.
struct Combined {
  DType dtype = DType::kFloat32;
  bool averaged = false;
  std::span<const std::byte> pushed;
  std::span<std::byte> values;
  std::span<std::byte> slots[2];
};

/// Combines; `step` counts the pushes from 1 on.
void Combine(const Rule& rule, std::uint64_t step, const Combined& elements);

// For clients, element by element; all have the same size.

/// to = a - b
void Subtract(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
              std::span<std::byte> to);
/// to = a + b
void Add(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
         std::span<std::byte> to);

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_MODEL_RULE_H_
