#include "base/crypto/purpose.h"

#include "base/format.h"

namespace tfos {
namespace {

constexpr std::string_view kNames[] = {"join", "feed",   "tensors", "parameters", "ask",
                                       "read", "scrape", "steer",   "operate"};

}  // namespace

std::string_view PurposeName(Purpose purpose) { return kNames[static_cast<int>(purpose)]; }

Result<Purpose> PurposeFromName(std::string_view name) {
  for (int i = 0; std::string_view known : kNames) {
    if (known == name) return static_cast<Purpose>(i);
    ++i;
  }
  return Status(ErrorKind::kBadInput, fmt::format("no key is for '{}'", name));
}

Secret KeyFor(const Secret& token, Purpose purpose) {
  return DeriveSecret(token, fmt::format("tfos key {}", PurposeName(purpose)));
}

}  // namespace tfos
