#ifndef TFOS_FEED_READ_STEPS_EPOCH_STEPS_H_
#define TFOS_FEED_READ_STEPS_EPOCH_STEPS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "feed/read/batch.h"
#include "feed/read/batch_reader.h"
#include "feed/read/steps/step_desk.h"
#include "tfos/status.h"

namespace tfos::feed {

/// What becomes of the rows of an epoch that do not make as many batches on every node.
enum class Remainder : std::uint8_t {
  kNone,  ///< Every node makes batches of what it got, at its own speed: their number differs.
  kJoin,  ///< Every node makes batches of what it got and of what others have passed on to it:
          ///< their rows differ by less than a batch.
  kDrop,  ///< Every node makes as many full batches as the one with the fewest; the rest is
          ///< dropped.
  kPad,  ///< Every node makes as many full batches as the one with the most; rows of zeros fill up.
};

/// By the name that programs give: join, drop or pad; none where they give none. Bad input for
/// another. Threads: any.
Result<Remainder> RemainderFrom(std::string_view name);

/// The steps of a node in one epoch: what it has made of its rows, and what it does next, by what
/// it has ahead and what the coordinator has granted. It decides; SynchronousBatches reads, waits
/// and tells.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. Units: rows, batches.
class EpochSteps {
 public:
  using Ahead = BatchReader::Ahead;

  enum class Move {
    kStop,       ///< The feed was stopped: what is left of the epoch stays unread.
    kStep,       ///< It makes a batch, unless the epoch IsOver.
    kLookToEnd,  ///< It takes all that it has got of the epoch, which is the last, and reports it.
    kPassOn,     ///< It looks to the end, and then passes rows on: RestToPass.
    kTakeOver,   ///< It looks to the end, and then takes rows of other nodes: RestToTakeOver.
  };

  EpochSteps(std::string queue, std::uint32_t node_id)
      : queue_(std::move(queue)), node_id_(node_id) {}

  void BeginEpoch();

  std::uint64_t made() const { return made_; }
  void OnBatch(std::uint64_t rows);

  /// What is passed on is known to the coordinator: it has said it.
  bool MayReport() const { return !passed_on_ && rows_there_.empty(); }
  StepReport ReportOf(const Ahead& ahead, const BatchOptions& options) const;

  /// Whether the grant says what to do. It does also when this node has no more itself: no node is
  /// more than an epoch ahead of another one.
  bool IsEnough(const StepGrant& grant, const Ahead& ahead) const;
  /// By a grant that IsEnough.
  Move Next(const StepGrant& grant, const Ahead& ahead, const BatchOptions& options) const;
  /// At kStep: whether no batch is made of what is left.
  bool IsOver(Remainder remainder, const StepGrant& grant, const Ahead& ahead,
              const BatchOptions& options) const;

  /// The first pass of this node with rows that are not there yet: `rows` says how many.
  std::optional<RowPass> RestToPass(const StepGrant& grant) const;
  void OnPassed(std::uint32_t to, std::uint64_t rows) { rows_there_[to] += rows; }
  /// Nothing is left to pass on, or nobody waits for it.
  void EndPassing() { passed_on_ = true; }
  bool passed_on() const { return passed_on_; }

  /// How many rows other nodes are still to bring.
  std::uint64_t RestToTakeOver(const StepGrant& grant) const;
  /// Also what came of a node that has left since.
  void OnTaken(std::uint32_t from, std::uint64_t rows) { rows_taken_[from] += rows; }
  void EndTaking() { taken_over_ = true; }

 private:
  std::string queue_;
  std::uint32_t node_id_;
  std::uint64_t made_ = 0;
  std::uint64_t rows_made_ = 0;  ///< In those batches.
  bool passed_on_ = false;       ///< What the final grant says.
  bool taken_over_ = false;      ///< Likewise.
  /// What was passed on, by the id of the other node.
  std::map<std::uint32_t, std::uint64_t> rows_there_;
  /// What was taken over, likewise: what one node has brought stands for nothing of another one's.
  std::map<std::uint32_t, std::uint64_t> rows_taken_;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_STEPS_EPOCH_STEPS_H_
