#include "base/crypto/purpose.h"

#include "base/format.h"
#include "base/text/choice.h"

namespace tfos {
namespace {

using enum Purpose;

constexpr Choice<Purpose> kNames[] = {
    {"join", kJoin},      {"feed", kFeed}, {"tensors", kTensors}, {"parameters", kParameters},
    {"ask", kAsk},        {"read", kRead}, {"scrape", kScrape},   {"steer", kSteer},
    {"operate", kOperate}};

}  // namespace

std::string_view PurposeName(Purpose purpose) { return ChoiceName(kNames, purpose); }

Result<Purpose> PurposeFromName(std::string_view name) {
  return ChoiceNamed("the purpose of a key", kNames, name);
}

Secret KeyFor(const Secret& token, Purpose purpose) {
  return DeriveSecret(token, fmt::format("tfos key {}", PurposeName(purpose)));
}

}  // namespace tfos
