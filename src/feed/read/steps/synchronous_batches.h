#ifndef TFOS_FEED_READ_STEPS_SYNCHRONOUS_BATCHES_H_
#define TFOS_FEED_READ_STEPS_SYNCHRONOUS_BATCHES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/thread/turn.h"
#include "base/time/wait.h"
#include "feed/read/batch_reader.h"
#include "feed/read/steps/epoch_steps.h"
#include "feed/read/steps/step_desk.h"
#include "tfos/status.h"

namespace tfos::feed {

/// The batches of one node for synchronous training, in which a step that some nodes begin and
/// others have no rows for would never end.
///
/// Owner and lifetime: borrows the reader and the tickets, which must outlive it. One for a queue.
/// Threads: any; a second caller waits for the first, as long as its own wait says. Errors: those
/// of both. Units: rows, batches.
class SynchronousBatches {
 public:
  SynchronousBatches(BatchReader& reader, StepDesk& tickets, std::string queue);

  /// As BatchReader::Next, whose `drop_remainder` counts with kNone and kJoin only: else batches
  /// are full. kBadInput where the rows of a step were read with kNone meanwhile. `Batch::rows`
  /// counts the rows that were fed; with kPad the columns hold `options.rows`.
  /// EndOfFeed, in the middle of an epoch, too, once the reader is stopped. With kNone and kJoin,
  /// where nodes may make different numbers of batches, that is at once. With kDrop and kPad, other
  /// nodes may have begun any step that was granted, and would wait for this one: it makes those,
  /// and the coordinator grants no others.
  Result<BatchResult> Next(Remainder remainder, const BatchOptions& options, const Wait& wait);

  /// The program asks what the rows of the next epoch hold: the coordinator hears that it has come
  /// there, if it hears of waits. `waits`: it asks for the rows themselves.
  Status TellEpoch(const Wait& turn, bool waits = false);

  /// To and from other nodes, of all epochs.
  std::uint64_t rows_passed_on() const { return rows_passed_on_; }
  std::uint64_t rows_taken_over() const { return rows_taken_over_; }

 private:
  Result<BatchResult> NextUnlessStopped(Remainder remainder, const BatchOptions& options,
                                        const Wait& wait);
  Result<BatchResult> NextStep(Remainder remainder, const BatchOptions& options, const Wait& wait)
      TFOS_REQUIRES(turn_);
  /// What there is and what is granted, when that says what to do next.
  struct Step {
    BatchReader::Ahead ahead;
    StepGrant grant = {};
    bool stops = false;  ///< There is none, as the feed was stopped or is over.
  };
  Result<Step> AwaitStep(const BatchOptions& options, const Wait& wait) TFOS_REQUIRES(turn_);
  /// Waits for the rows of one batch or the end of the epoch, and tells the coordinator so.
  Status AwaitRows(const BatchOptions& options, const Wait& wait) TFOS_REQUIRES(turn_);
  /// Another dataset of the queue may have ended the epoch.
  void NoteEpoch(std::uint32_t epoch) TFOS_REQUIRES(turn_);
  Status Report(const BatchReader::Ahead& ahead, const BatchOptions& options, bool waits)
      TFOS_REQUIRES(turn_);
  /// Passes rows on to the other nodes, as the final grant has it, and tries that again until they
  /// are there, the coordinator says that the other node has left, or the feed is over. However
  /// the tries fail: the other node waits for the rows. Goes on where it stopped when the wait has
  /// failed.
  Status PassOn(StepGrant grant, const Wait& wait) TFOS_REQUIRES(turn_);
  /// One try.
  Status PassRest(const StepGrant& grant, const Wait& wait) TFOS_REQUIRES(turn_);
  /// Takes what others pass on to this node.
  Status TakeOver(std::uint32_t epoch, const BatchOptions& options, const Wait& wait)
      TFOS_REQUIRES(turn_);
  /// One of the `ahead` rows that there were for it.
  Result<Batch> NextBatch(std::uint64_t ahead, const BatchOptions& options, const Wait& wait)
      TFOS_REQUIRES(turn_);
  void BeginEpoch() TFOS_REQUIRES(turn_);
  Result<StepGrant> Await(std::uint32_t epoch, const std::function<bool(const StepGrant&)>& enough,
                          const Wait& wait);
  Result<BatchResult> EndEpoch(const Wait& wait) TFOS_REQUIRES(turn_);
  /// Whether the epoch's end has been waited for so long that a line should say for what.
  bool IsWorthALine() TFOS_REQUIRES(turn_);

  BatchReader& reader_;
  StepDesk& tickets_;
  const std::string queue_;
  Turn turn_;
  std::uint32_t epoch_ TFOS_GUARDED_BY(turn_) = 0;
  EpochSteps steps_ TFOS_GUARDED_BY(turn_);
  int looked_ TFOS_GUARDED_BY(turn_) = 0;                      ///< As StepReport.
  std::uint64_t pieces_passed_on_ TFOS_GUARDED_BY(turn_) = 0;  ///< Of all epochs.
  std::optional<Clock::TimePoint> log_at_ TFOS_GUARDED_BY(turn_);
  bool dropping_ TFOS_GUARDED_BY(turn_) = false;  ///< What is left of this epoch.
  std::atomic<std::uint64_t> rows_passed_on_ = 0;
  std::atomic<std::uint64_t> rows_taken_over_ = 0;
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_STEPS_SYNCHRONOUS_BATCHES_H_
