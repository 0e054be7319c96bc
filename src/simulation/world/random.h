#ifndef TFOS_SIMULATION_WORLD_RANDOM_H_
#define TFOS_SIMULATION_WORLD_RANDOM_H_

#include <cstdint>

namespace tfos::simulation {

/// The same numbers for a seed wherever it runs (SplitMix64).
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }
  /// From `first` to `last`, both included.
  int Between(int first, int last) {
    return first + static_cast<int>(Next() % static_cast<std::uint64_t>(last - first + 1));
  }
  bool Chance(int percent) { return Between(1, 100) <= percent; }

 private:
  std::uint64_t state_;
};

}  // namespace tfos::simulation

#endif  // TFOS_SIMULATION_WORLD_RANDOM_H_
