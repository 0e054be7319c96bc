#ifndef TFOS_NODE_LEFT_OF_H_
#define TFOS_NODE_LEFT_OF_H_

#include <cstdint>

namespace tfos::node {

/// What is left of `all` without `part`. Counters are read one after the other: for a moment a part
/// may be more than all, of which nothing is left then.
constexpr std::uint64_t LeftOf(std::uint64_t all, std::uint64_t part) {
  return all > part ? all - part : 0;
}

}  // namespace tfos::node

#endif  // TFOS_NODE_LEFT_OF_H_
