#include "control/link/server/page_keys.h"

#include "base/crypto/purpose.h"
#include "base/format.h"

namespace tfos::control {
namespace {

constexpr std::string_view kBearer = "Bearer ";
constexpr std::size_t kNameDigits = 8;

/// A cookie goes to every port of its host: it opens TensorBoard alone.
std::string Cookie(const Secret& token) {
  const std::string value = DeriveSecret(KeyFor(token, Purpose::kRead), "tfos cookie").ToHex();
  return fmt::format("tfos-{}={}", value.substr(0, kNameDigits), value);
}

std::string ScrapeKey(const Secret& token, const std::string& chosen) {
  return chosen.empty() ? KeyFor(token, Purpose::kScrape).ToHex() : chosen;
}

/// Whether one of the cookies in a request's field is this one.
bool Holds(std::string_view field, std::string_view cookie) {
  while (!field.empty()) {
    const std::size_t end = field.find(';');
    if (ConstantTimeEqual(field.substr(0, end), cookie)) return true;
    if (end == std::string_view::npos) break;
    field.remove_prefix(end + 1);
    if (field.starts_with(' ')) field.remove_prefix(1);
  }
  return false;
}

}  // namespace

PageKeys::PageKeys(const Secret& token, const std::string& scrape_token)
    : read_(KeyFor(token, Purpose::kRead).ToHex()),
      read_bearer_(fmt::format("{}{}", kBearer, read_)),
      scrape_bearer_(fmt::format("{}{}", kBearer, ScrapeKey(token, scrape_token))),
      cookie_(Cookie(token)) {}

bool PageKeys::Open(std::string_view page, std::string_view authorization,
                    std::string_view cookie) const {
  if (page == kMetrics) return ConstantTimeEqual(authorization, scrape_bearer_);
  return ConstantTimeEqual(authorization, read_bearer_) ||
         (IsTensorBoard(page) && Holds(cookie, cookie_));
}

bool PageKeys::IsPublic(std::string_view page) { return page == "/" || page.starts_with("/page/"); }

bool PageKeys::IsTensorBoard(std::string_view page) {
  if (!page.starts_with(kTensorBoard)) return false;
  page.remove_prefix(kTensorBoard.size());
  return page.empty() || page.front() == '/';
}

std::optional<std::string> PageKeys::CookieFor(std::string_view page,
                                               std::string_view query) const {
  constexpr std::string_view kName = "key=";
  // Of another page, the folder is not TensorBoard's.
  if (!page.ends_with('/') || page.substr(0, page.size() - 1) != kTensorBoard) return std::nullopt;
  if (!query.starts_with(kName) || !ConstantTimeEqual(query.substr(kName.size()), read_)) {
    return std::nullopt;
  }
  return fmt::format("{}; HttpOnly; SameSite=Strict", cookie_);
}

}  // namespace tfos::control
