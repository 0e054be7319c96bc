// The plan of a Spark job that feeds, as any text: it is refused, or has a node to feed.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "feed/feeder/feed_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view plan(reinterpret_cast<const char*>(data), size);
  for (const tfos::feed::Mode mode : {tfos::feed::Mode::kTrain, tfos::feed::Mode::kInference}) {
    const auto options = tfos::feed::ReadFeedPlan(
        plan, {.executor_id = "0", .partition = 3, .attempt = 0, .mode = mode});
    if (options.ok() && options->endpoints.empty()) __builtin_trap();
  }
  return 0;
}
