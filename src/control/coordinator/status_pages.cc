#include "control/coordinator/status_pages.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>

#include "base/format.h"
#include "base/text/query.h"
#include "base/time/deadline.h"
#include "control/coordinator/metrics_text.h"
#include "control/page/page_files.h"

namespace tfos::control {
namespace {

namespace asio = boost::asio;
using std::chrono::milliseconds;

constexpr milliseconds kLongestPoll{10'000};
/// For the answer of a page that asks in time. A page of many nodes takes longer to draw, and only
/// then begins to wait.
constexpr milliseconds kAnswerMargin{1000};
constexpr int kDrawingShare = 5;
constexpr std::string_view kStatus = "/v1/status";
constexpr std::string_view kHistory = "/v1/history";
constexpr int kGood = 200;

/// `wait_ms` of a query; nullopt when it is not a number.
std::optional<milliseconds> ParseWait(std::string_view query) {
  constexpr std::string_view kName = "wait_ms=";
  if (query.empty()) return milliseconds(0);
  if (!query.starts_with(kName)) return std::nullopt;
  query.remove_prefix(kName.size());
  std::uint32_t count = 0;
  if (!ReadNumber(query, 0U, std::numeric_limits<std::uint32_t>::max(), count)) return std::nullopt;
  return std::min(milliseconds(count), kLongestPoll);
}

// The answers are made outside of coroutines: GCC 12 destroys temporary aggregates in them twice.
HttpAnswer BadQuery() {
  return {.status = 400, .content_type = "text/plain", .body = "expected wait_ms=N\n"};
}

}  // namespace

asio::awaitable<HttpAnswer> StatusPages::Get(std::string target, std::string query) {
  if (target == "/v1/failure") co_return co_await WaitForFailure(std::move(query));
  co_return NoteViewer(Page(target, query), target, query);
}

HttpAnswer StatusPages::NoteViewer(HttpAnswer answer, std::string_view target,
                                   std::string_view query) {
  const bool is_status = target == kStatus;
  const std::string_view page = Viewers::NameIn(query);
  if (page.empty() || answer.status != kGood || (!is_status && target != kHistory)) return answer;
  const Viewers::Part part = is_status ? Viewers::Part::kStatus : Viewers::Part::kHistory;
  answer.on_sent = [this, look = viewers_.Begin(page, part, record_->ask_again(), clock_.Now())] {
    viewers_.End(look);
    if (viewers_.AllHaveTheEnd(clock_.Now())) end_was_seen_.Open();
  };
  return answer;
}

asio::awaitable<void> StatusPages::ShowEnd() {
  end_was_seen_.Reset();
  const Clock::TimePoint now = clock_.Now();
  if (viewers_.AllHaveTheEnd(now)) co_return;
  const milliseconds interval = record_->ask_again();
  const Clock::Duration most = interval + std::max(kAnswerMargin, interval / kDrawingShare);
  co_await end_was_seen_.Wait(Deadline::After(std::min(most, viewers_.LongestWait(now))));
}

std::optional<int> StatusPages::NodeWithTensorBoard() const {
  for (const NodeInfo& node : roster_->Nodes(clock_.Now())) {
    if (node.tensorboard.has_value()) return node.node_id;
  }
  return std::nullopt;
}

void StatusPages::TellFailure() {
  for (asio::steady_timer* waiter : failure_waiters_) waiter->cancel();
}

HttpAnswer StatusPages::Page(std::string_view target, std::string_view query) const {
  if (target == kStatus) return {.body = SerializeStatus(StatusOfNow(*record_))};
  if (target == kHistory) return HistoryAnswer(query);
  if (target == "/v1/report") return ReportAnswer();
  if (target == "/metrics") {
    return {.content_type = "text/plain; version=0.0.4",
            .body = MetricsText(roster_->Snapshot(clock_.Now()))};
  }
  if (const std::optional<PageFile> file = FindPageFile(target)) {
    return {.content_type = std::string(file->content_type), .body = std::string(file->bytes)};
  }
  return {.status = 404, .content_type = "text/plain"};
}

ClusterStatus StatusPages::StatusOfNow(const RunRecord& record) const {
  ClusterStatus status = roster_->Snapshot(clock_.Now());
  status.rates = record.Rates();
  status.progress = record.ProgressOf(roster_->Views());
  status.stopped_by = record.stopped_by();
  return status;
}

HttpAnswer StatusPages::HistoryAnswer(std::string_view query) const {
  const Result<HistoryQuery> wanted = HistoryQuery::Parse(query);
  if (!wanted.ok()) {
    return {.status = 400, .content_type = "text/plain", .body = wanted.status().message() + "\n"};
  }
  return {.body = record_->Json(*wanted, clock_.Now())};
}

HttpAnswer StatusPages::ReportAnswer() const {
  // A file never shows a later look, so its curves must end with its numbers.
  const Clock::TimePoint now = clock_.Now();
  const RunRecord record = record_->SampledAt(now);
  HistoryQuery query;
  // A file with all curves of a larger cluster would be too large for a browser.
  if (record.nodes() <= History::kMostNodes) {
    query.nodes.resize(record.nodes());
    std::iota(query.nodes.begin(), query.nodes.end(), 0);
  }
  const std::string recent = record.Json(query, now);
  query.range = History::Range::kWhole;
  return {.content_type = "text/html; charset=utf-8",
          .body = ReportHtml(fmt::format(R"({{"status":{},"recent":{},"whole":{}}})",
                                         SerializeStatus(StatusOfNow(record)), recent,
                                         record.Json(query, now)))};
}

HttpAnswer StatusPages::FailureAnswer() const {
  if (!roster_->failure().has_value()) return {.status = 204, .content_type = ""};
  return {.body = SerializeFailure(*roster_->failure())};
}

asio::awaitable<HttpAnswer> StatusPages::WaitForFailure(std::string query) {
  const std::optional<milliseconds> wait = ParseWait(query);
  if (!wait.has_value()) co_return BadQuery();
  if (!roster_->failure().has_value()) {
    asio::steady_timer timer(executor_, *wait);
    failure_waiters_.insert(&timer);
    co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
    failure_waiters_.erase(&timer);
  }
  co_return FailureAnswer();
}

}  // namespace tfos::control
