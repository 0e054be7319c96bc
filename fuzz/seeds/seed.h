#ifndef TFOS_FUZZ_SEED_H_
#define TFOS_FUZZ_SEED_H_

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tfos/status.h"

// What those who make the seeds share.
namespace tfos {

/// A seed of a fuzz target.
struct Seed {
  std::string target;  ///< Without `_fuzz`.
  std::string name;
  std::string bytes;
};

/// The value, or the end of the program with the error.
template <typename T>
T Must(Result<T> result) {
  if (result.ok()) return std::move(result).value();
  std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
  std::exit(1);
}

inline std::string_view TextOf(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline std::string Byte(int value) { return {static_cast<char>(value)}; }

}  // namespace tfos

#endif  // TFOS_FUZZ_SEED_H_
