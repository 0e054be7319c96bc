// What Java hands over as JSON: types of columns, signatures, requests. Any JSON is refused, by a
// status or an exception of the JSON library, which is what the callers catch; or what was read is
// written and read again alike.

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "jvm/column_layout.h"
#include "jvm/plan_json.h"

namespace {

using nlohmann::json;

template <typename Action>
void Try(const Action& action) {
  try {
    action();
  } catch (const json::exception&) {
    // Java has no reason to make such a one.
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const json text = json::parse(data, data + size, nullptr, /*allow_exceptions=*/false);
  if (text.is_discarded()) return 0;
  Try([&] {
    const json once = tfos::jvm::TypeToJson(tfos::jvm::TypeFromJson(text));
    if (tfos::jvm::TypeToJson(tfos::jvm::TypeFromJson(once)) != once) __builtin_trap();
  });
  Try([&] {
    const json once = tfos::jvm::SignatureToJson(tfos::jvm::SignatureFromJson(text));
    if (tfos::jvm::SignatureToJson(tfos::jvm::SignatureFromJson(once)) != once) __builtin_trap();
  });
  Try([&] {
    const auto planned = tfos::jvm::PlanFromJson(text);
    if (planned.ok()) (void)tfos::jvm::PlanToJson(planned->plan).dump();
  });
  return 0;
}
