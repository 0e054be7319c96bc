#ifndef TFOS_CONTROL_AGENT_CHILD_ANSWER_WATCH_H_
#define TFOS_CONTROL_AGENT_CHILD_ANSWER_WATCH_H_

#include "base/time/deadline.h"

namespace tfos::control {

/// Whether a node's process still answers its agent, which asks it again and again.
///
/// The answers come from a thread of the node that does nothing else, so a node that is silent is
/// stopped, waits in the kernel, or gets no processor. What its program does is not a reason. Only
/// the time counts in which the agent itself has looked: if its whole host stood still, the node
/// was not silent.
///
/// Owner and lifetime: a value, as long as the node's process. Threads: one at a time.
/// Errors: none. Units: times are those of one monotonic clock.
class AnswerWatch {
 public:
  /// `patience`: how long the node may be silent; zero: for ever.
  explicit AnswerWatch(Clock::Duration patience);

  /// How often to call Look.
  Clock::Duration interval() const { return interval_; }

  /// The node has answered. It says so unasked once it can, and is asked from then on.
  void OnAnswer();
  /// The node has said its last word: it needs no ear any more.
  void OnLastWord();
  /// Its silence has a good reason; it begins anew.
  void Excuse() { silence_ = Clock::Duration::zero(); }

  /// True when it is time to ask the node again. It is never asked twice before it answers.
  bool Look(Clock::TimePoint now);

  /// How long it has not answered, at the last look.
  Clock::Duration silence() const { return silence_; }
  bool out_of_patience() const {
    return patience_ > Clock::Duration::zero() && silence_ >= patience_;
  }

 private:
  enum class State { kDeaf, kAnswers, kAsked, kOver };

  Clock::Duration patience_;
  Clock::Duration interval_;
  State state_ = State::kDeaf;
  Clock::TimePoint looked_;
  Clock::Duration silence_{0};
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_CHILD_ANSWER_WATCH_H_
