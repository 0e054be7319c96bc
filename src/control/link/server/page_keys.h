#ifndef TFOS_CONTROL_LINK_SERVER_PAGE_KEYS_H_
#define TFOS_CONTROL_LINK_SERVER_PAGE_KEYS_H_

#include <optional>
#include <string>
#include <string_view>

#include "base/crypto/secret.h"

namespace tfos::control {

/// What opens the coordinator's pages to peers that speak HTTP at once: a bearer, and for
/// TensorBoard, which a browser shows, a cookie.
///
/// Owner and lifetime: a value. Threads: any.
class PageKeys {
 public:
  static constexpr std::string_view kMetrics = "/metrics";
  static constexpr std::string_view kTensorBoard = "/tensorboard";
  static constexpr std::string_view kOutput = "/v1/output";
  static constexpr std::string_view kStacks = "/v1/stacks";

  /// The keys are made of the cluster's token. A `scrape_token` that is not empty replaces the one
  /// for metrics.
  PageKeys(const Secret& token, const std::string& scrape_token);

  /// `page`: the target without its query. The others: the request's fields of these names.
  bool Open(std::string_view page, std::string_view authorization, std::string_view cookie) const;

  /// Whether everybody may have this: the files that a browser needs to show the page, which are
  /// the same for all clusters. What they show needs the key.
  static bool IsPublic(std::string_view page);
  /// Whether this is for people, and not for Spark's tasks: what nodes have written, and what they
  /// are at.
  static bool IsForPeople(std::string_view page) { return page == kOutput || page == kStacks; }
  /// Whether this is TensorBoard's page or one below it.
  static bool IsTensorBoard(std::string_view page);
  /// If a browser comes to TensorBoard's page, whose path ends with a slash, with `key=` and the
  /// right key in the query: the cookie to be set. It names no path, so a browser keeps it for the
  /// folder of the page as it sees it, which a proxy may show below a path of its own.
  std::optional<std::string> CookieFor(std::string_view page, std::string_view query) const;

 private:
  const std::string read_;
  const std::string read_bearer_;
  const std::string scrape_bearer_;
  /// Browsers send the cookies of one host to all its ports, so each cluster's has another name.
  const std::string cookie_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_LINK_SERVER_PAGE_KEYS_H_
