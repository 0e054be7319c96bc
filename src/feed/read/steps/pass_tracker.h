#ifndef TFOS_FEED_READ_STEPS_PASS_TRACKER_H_
#define TFOS_FEED_READ_STEPS_PASS_TRACKER_H_

#include <cstdint>

namespace tfos::feed {

/// Decides which ends of epochs end a pass over a dataset. A pass is an epoch, but passes may be
/// left before they are over:
///
///   left with batches to come    the next pass continues the epoch and ends with it
///   left with none to come       the end of the epoch would make the next pass an empty one: it
///                                is passed over
///   left with some to come, but limiting passes to the length of the first (Keras does) means
///   as long as the last full     whole epochs: the next pass takes what is left over and goes on
///   pass                         through its own epoch
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. Units: batches.
class PassTracker {
 public:
  void Begin() {
    if (ended_) {
      left_ = false;
      behind_ = false;
    } else if (batches_ > 0) {
      left_ = true;
      behind_ = full_pass_ > 0 && batches_ >= full_pass_;
    }
    ended_ = false;
    batches_ = 0;
  }

  /// Whether the epoch has batches that a pass before has had, which was left or goes on.
  bool shares_epoch() const { return left_; }

  void OnBatch() { ++batches_; }

  /// The last batch was made for this pass, which is left without it: the next one gets it.
  void OnBatchLeft() {
    if (batches_ > 0) --batches_;
  }

  /// The end of an epoch came. Returns whether it ends the pass.
  bool OnEndOfEpoch() {
    if (behind_ || (left_ && batches_ == 0)) {
      left_ = false;
      behind_ = false;
      return false;
    }
    full_pass_ = batches_;
    ended_ = true;
    return true;
  }

 private:
  std::uint64_t batches_ = 0;    ///< Of this pass.
  std::uint64_t full_pass_ = 0;  ///< Batches of the last pass that ran to its end.
  bool ended_ = false;           ///< This pass has run to its end.
  bool left_ = false;            ///< The pass before has not, and its epoch has not ended since.
  bool behind_ = false;          ///< Likewise, and that pass was a full one.
};

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_STEPS_PASS_TRACKER_H_
