#ifndef TFOS_PARAMETER_SERVER_MODEL_LAYOUT_H_
#define TFOS_PARAMETER_SERVER_MODEL_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "collective/operation/element.h"
#include "tfos/status.h"

namespace tfos::parameter_server {

using collective::DType;

/// A variable begins at a multiple of this, and so does each server's share. Bytes.
inline constexpr std::uint64_t kAlignment = 64;
/// What is combined and read as one. Bytes.
inline constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20;
/// The most bytes of all variables of a model.
inline constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 42;
inline constexpr std::size_t kMostVariables = 1 << 16;

/// The type that a server can keep, by NumPy's name. Bad input for what can't be added up, and for
/// unknown names. Threads: any.
Result<DType> VariableTypeFrom(std::string_view name);

struct Variable {
  DType dtype = DType::kFloat32;
  std::uint64_t elements = 0;
  /// Where changes are added: values of this one are pushed, and combined as a mean. For
  /// statistics, which all workers move towards the same.
  bool averaged = false;

  friend bool operator==(const Variable&, const Variable&) = default;
};

/// Where the variables of a model, or of a server's share of it, lie: one behind the other in their
/// order.
///
/// Owner and lifetime: a value. Threads: as a value. Units: bytes.
class Layout {
 public:
  /// Errors: bad input for types that can't be added up, and for too much.
  static Result<Layout> Of(std::vector<Variable> variables);

  struct Place {
    std::uint64_t begin = 0;
    std::uint64_t bytes = 0;
  };

  const std::vector<Variable>& variables() const { return variables_; }
  const Place& place(std::size_t variable) const { return places_[variable]; }
  /// A multiple of kAlignment.
  std::uint64_t bytes() const { return bytes_; }

  /// What of a variable lies in a range.
  struct Part {
    std::size_t variable = 0;
    DType dtype = DType::kFloat32;
    bool averaged = false;
    std::uint64_t begin = 0;  ///< In the layout.
    std::uint64_t bytes = 0;
  };
  /// The parts of [begin, end), both multiples of kAlignment, in their order.
  std::vector<Part> PartsOf(std::uint64_t begin, std::uint64_t end) const;
  /// The same as variables, with a layout of their own: what a server is told of its share.
  std::vector<Variable> ShareOf(std::uint64_t begin, std::uint64_t end) const;

  /// Where to cut it into `servers` shares of about the same size: servers + 1 offsets, from 0 to
  /// bytes(). The same layout always gives the same cuts. A variable is cut only where the shares
  /// would differ too much otherwise.
  std::vector<std::uint64_t> Cut(std::size_t servers) const;

 private:
  std::vector<Variable> variables_;
  std::vector<Place> places_;
  std::uint64_t bytes_ = 0;
};

}  // namespace tfos::parameter_server

#endif  // TFOS_PARAMETER_SERVER_MODEL_LAYOUT_H_
