#include "base/time/seconds_text.h"

#include <cmath>

#include "base/format.h"

namespace tfos {

std::string SecondsText(std::chrono::duration<double> time) {
  const double seconds = time.count();
  return std::abs(seconds) < 100 ? fmt::format("{:.3g} s", seconds)
                                 : fmt::format("{:.0f} s", seconds);
}

}  // namespace tfos
