#ifndef TFOS_FEED_READ_STEPS_STEP_DESK_H_
#define TFOS_FEED_READ_STEPS_STEP_DESK_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread/mutex.h"
#include "base/time/wait.h"
#include "base/time/wait_meter.h"
#include "feed/wire/item_ranges.h"
#include "feed/wire/session.h"
#include "tfos/status.h"

namespace tfos::feed {

/// How many batches of an epoch this node can make.
struct StepReport {
  std::string queue;
  std::uint32_t epoch = 0;
  /// Full ones that it has got the rows for, those it has made included.
  std::uint64_t full_batches = 0;
  /// It has got all its rows: `full_batches` is final, and `batches` counts.
  bool ended = false;
  std::uint64_t batches = 0;  ///< Those, and one that is not full.
  /// Once it has ended: its rows of the epoch, those in batches included.
  std::uint64_t rows = 0;
  /// How many of those it can pass on to other nodes.
  std::uint64_t passable_rows = 0;
  std::uint64_t batch_rows = 0;
  /// Batches that it has made. With `waits` it makes no other before more rows or tickets come.
  std::uint64_t made = 0;
  bool waits = false;
  int looked = 0;  ///< StepDesk::look() before it looked what rows it has.

  friend bool operator==(const StepReport&, const StepReport&) = default;
};

/// Rows of an epoch that one node passes on to another one, so that both end it with as many.
struct RowPass {
  std::uint32_t from = 0;
  std::uint64_t rows = 0;
  Endpoint to = {};
};

/// Rows of one chunk that are passed on.
struct PassedPiece {
  std::span<const std::byte> chunk;
  ItemRange rows;
  /// The same whenever the same rows are tried again; from 1.
  std::uint64_t number = 0;
  InterruptCheck check = {};
};

/// How many steps of an epoch every node can make.
struct StepGrant {
  std::string queue;
  std::uint32_t epoch = 0;
  std::uint64_t granted = 0;
  bool final = false;         ///< It will not grow.
  std::uint64_t longest = 0;  ///< The most batches that a node makes, as far as that is known.
  bool ending = false;        ///< A node has got all its rows: the others have, too.
  std::vector<RowPass> passes = {};  ///< What `granted` and `longest` count on once it is final.
  std::vector<std::string> missing;  ///< Nodes that have not reported yet.
  int look = 0;                      ///< As StepDesk::look().

  /// The feed was stopped in the epoch, after the steps that were granted by then. All nodes see
  /// that in the same one, so they end alike.
  bool stopped() const { return final && !ending; }
};

/// A node's end of the step tickets: what it tells the coordinator and what that grants. The
/// decision is the coordinator's (control/coordinator/roster/offices/step_ticket_office.h).
///
/// Owner and lifetime: owned by the node's feed. Threads: any. What waits of grants takes
/// kMostGrantBytes at most, whatever the coordinator says.
/// Errors: those of sending, with kReconnect in place of kRetryLater: readers take that for a wait
/// that goes on, and nothing goes on without the report. kRetryLater when a wait's deadline passed,
/// and what its check returned. Units: batches.
class StepDesk {
 public:
  static constexpr std::size_t kMostGrantBytes = std::size_t{64} << 20;

  /// Sends a report towards the coordinator; nothing is sent without one.
  using Sender = std::function<Status(const StepReport& report)>;
  void SetSender(Sender sender);

  /// Tells the coordinator, unless what it was told last is nearly the same: it hears of every
  /// batch before `made` reaches it, of a wait, and otherwise now and then.
  Status Report(const StepReport& report);

  /// Whether the coordinator is to hear of waits for rows and tickets, too: that costs a message
  /// for each.
  void TellWaits() { tells_waits_ = true; }
  bool tells_waits() const { return tells_waits_; }
  /// The number of the last grant that asks to look what rows there are, and to report that.
  int look() const { return look_; }

  /// Brings the rows to the node; nothing is passed on without one.
  using Passer =
      std::function<Status(const StepGrant& grant, const RowPass& pass, const PassedPiece& piece)>;
  void SetPasser(Passer passer);
  Passer passer();

  /// Takes a grant of the coordinator. If there is no room for it, it is dropped and logged.
  void OnGrant(StepGrant grant);

  /// Whether the grant of the epoch is `enough` by now.
  bool Has(const std::string& queue, std::uint32_t epoch,
           const std::function<bool(const StepGrant&)>& enough);

  /// The grant of the epoch once it is `enough`. Logs now and then which nodes it waits for.
  Result<StepGrant> Await(const std::string& queue, std::uint32_t epoch,
                          const std::function<bool(const StepGrant&)>& enough, const Wait& wait);
  /// For how long this node had rows, and waited until others had some.
  std::chrono::nanoseconds waited() const;

 private:
  using Key = std::pair<std::string, std::uint32_t>;

  std::atomic<bool> tells_waits_ = false;
  std::atomic<int> look_ = 0;
  mutable Mutex mutex_;
  CondVar changed_;
  Sender sender_ TFOS_GUARDED_BY(mutex_);
  Passer passer_ TFOS_GUARDED_BY(mutex_);
  /// The last one, by queue.
  std::map<std::string, StepReport> reported_ TFOS_GUARDED_BY(mutex_);
  /// The grants of epochs that were not left yet.
  std::map<Key, StepGrant> grants_ TFOS_GUARDED_BY(mutex_);
  std::size_t grant_bytes_ TFOS_GUARDED_BY(mutex_) = 0;  ///< That those take.
  bool said_left_out_ TFOS_GUARDED_BY(mutex_) = false;
  WaitMeter waits_ TFOS_GUARDED_BY(mutex_);
  /// Since before `log_at_`, over several calls.
  std::optional<Key> waiting_for_ TFOS_GUARDED_BY(mutex_);
  Clock::TimePoint log_at_ TFOS_GUARDED_BY(mutex_){};
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_STEPS_STEP_DESK_H_
