#ifndef TFOS_CONTROL_COORDINATOR_STATUS_PAGES_H_
#define TFOS_CONTROL_COORDINATOR_STATUS_PAGES_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "base/time/deadline.h"
#include "control/coordinator/history/run_record.h"
#include "control/coordinator/roster/roster.h"
#include "control/link/async_latch.h"
#include "control/link/server/control_service.h"
#include "control/page/viewers.h"

namespace tfos::control {

/// What the coordinator answers over HTTP: a page for browsers with its files, the cluster's state
/// and how its run has gone, its metrics, and the failure that ended it. A caller may wait for
/// that.
///
/// Owner and lifetime: outlives the coroutines that use it; borrows the rest. Roster and record
/// must be there before anybody asks. Threads: those of one single-threaded executor.
class StatusPages {
 public:
  StatusPages(const boost::asio::any_io_executor& executor, const Clock& clock,
              const std::optional<Roster>& roster, const std::optional<RunRecord>& record)
      : executor_(executor),
        clock_(clock),
        roster_(roster),
        record_(record),
        end_was_seen_(executor) {}

  boost::asio::awaitable<HttpAnswer> Get(std::string target, std::string query);

  /// The node whose TensorBoard listens.
  std::optional<int> NodeWithTensorBoard() const;

  /// Answers those that wait for the failure.
  void TellFailure();

  /// The state changes no more.
  void BeginEnd() { viewers_.BeginEnd(); }
  /// Waits until each page that has asked lately has the last state, but not much longer than until
  /// it should have asked again. Returns at once if there is no such page.
  boost::asio::awaitable<void> ShowEnd();

 private:
  HttpAnswer Page(std::string_view target, std::string_view query) const;
  /// Notes that a page asks, and that it was answered.
  HttpAnswer NoteViewer(HttpAnswer answer, std::string_view target, std::string_view query);
  /// All that is known of now, with the rates of a record.
  ClusterStatus StatusOfNow(const RunRecord& record) const;
  HttpAnswer HistoryAnswer(std::string_view query) const;
  /// The page as one file, with everything that it shows.
  HttpAnswer ReportAnswer() const;
  HttpAnswer FailureAnswer() const;
  boost::asio::awaitable<HttpAnswer> WaitForFailure(std::string query);

  boost::asio::any_io_executor executor_;
  const Clock& clock_;
  const std::optional<Roster>& roster_;
  const std::optional<RunRecord>& record_;
  std::unordered_set<boost::asio::steady_timer*> failure_waiters_;
  Viewers viewers_;
  AsyncLatch end_was_seen_;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_COORDINATOR_STATUS_PAGES_H_
