#ifndef TFOS_CONTROL_AGENT_ANSWERS_QUESTION_DESK_H_
#define TFOS_CONTROL_AGENT_ANSWERS_QUESTION_DESK_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/time/deadline.h"
#include "control/agent/child/output_log.h"
#include "control/messages/agent_messages.h"
#include "control/messages/node_messages.h"

namespace tfos::control {

/// Answers what people ask of a node: its output, what its threads are at, and where they spend
/// their time. A question about output may wait for more of it, and costs a timer until then; those
/// that ask keep nothing here, but one that has the node profiled keeps others from it.
///
/// Owner and lifetime: the agent's; borrows what `Begin` names. Its executor must not run any more
/// once it is destroyed.
/// Threads: those of one single-threaded executor.
/// Errors: an answer's text says what could not be found out.
class QuestionDesk {
 public:
  static constexpr std::size_t kMostQuestions = 64;        ///< At a time.
  static constexpr std::size_t kMostBytes = 256u << 10;    ///< Of output, in one answer.
  static constexpr std::size_t kLastBytes = 8u << 10;      ///< Where nobody has asked for output.
  static constexpr std::chrono::seconds kLongestWait{10};  ///< For output.
  /// Output that follows within it goes along, so that a chatty node does not cost a message a
  /// line.
  static constexpr std::chrono::milliseconds kCollect{50};
  static constexpr std::chrono::seconds kStacksPatience{10};  ///< For the node's process.

  /// For the native calls, after that.
  static constexpr std::chrono::seconds kNativePatience{8};

  /// From one answer to those who ask gently until the next question of theirs.
  static constexpr std::chrono::seconds kGentlePause{1};

  /// Beyond the time that it samples.
  static constexpr std::chrono::seconds kProfilePatience{10};
  /// For one that has more of the node profiled to go on, before others may.
  static constexpr std::chrono::seconds kProfileHold{3};

  using Send = std::function<void(const Answer&)>;
  /// What the node's process is asked for, and others about it.
  struct Ways {
    std::function<void(bool gentle)> stacks;                      ///< For `OnStacks`.
    std::function<void(std::chrono::milliseconds time)> profile;  ///< For `OnProfile`.
    std::function<void()> native_calls = {};                      ///< For `OnNativeCalls`.
  };

  /// `clock` is asked who may ask again.
  QuestionDesk(const boost::asio::any_io_executor& executor, Send send,
               const Clock& clock = Clock::Steady())
      : executor_(executor), send_(std::move(send)), clock_(clock) {}

  /// The node's process has been started.
  void Begin(std::int64_t pid, const OutputLog& written, Ways ways);
  void Take(const Question& question);
  void OnOutput();
  void OnStacks(Stacks stacks);
  void OnProfile(Profile profile);
  void OnNativeCalls(std::string text);
  /// The node has ended: sends the end of its output, which answers all that still ask.
  void End();

 private:
  boost::asio::awaitable<void> Answer(Question question);
  boost::asio::awaitable<void> AnswerAboutOutput(Question question);
  boost::asio::awaitable<void> AnswerAboutStacks(int number, bool gentle);
  boost::asio::awaitable<std::string> FindNativeCalls();
  boost::asio::awaitable<void> AnswerGently(int number);
  boost::asio::awaitable<void> AnswerAboutProfile(Question question);
  /// Until `done`, or the deadline.
  boost::asio::awaitable<void> Wait(std::function<bool()> done, Deadline deadline);
  void Wake();
  void Say(int number, std::string text) const;
  void Refuse(int number, std::string why) const;
  void Tell(int number, const OutputLog::Piece& piece) const;
  /// `told`: by the process; nullptr if it has not answered, for the reason `standstill`. `rest`:
  /// what follows that.
  std::string DescribeStacks(const std::string* told, const std::string& standstill,
                             const std::string& rest) const;
  /// Whether threads of the process may still be in native calls.
  bool HasThreads() const;
  /// Why this process can't be profiled now; empty: it can.
  std::string WhyNoProfile(const std::string& by) const;
  std::string WhyNoAnswer() const;
  std::string DescribeStandstillNow() const;

  boost::asio::any_io_executor executor_;
  const Send send_;
  const Clock& clock_;
  std::int64_t pid_ = 0;  ///< 0 before it begins.
  const OutputLog* written_ = nullptr;
  Ways ways_;
  bool ended_ = false;
  bool was_asked_for_output_ = false;
  std::size_t questions_ = 0;
  std::set<boost::asio::steady_timer*> waiting_;
  /// What the node has been asked for and has told, gently or not. Its answers to those who did not
  /// ask gently are good for all.
  struct Told {
    bool asked = false;  ///< And not answered yet.
    std::int64_t count = 0;
    std::string text;  ///< The latest.
  };
  Told gentle_stacks_;
  Told whole_stacks_;
  Told native_calls_;
  bool answers_gently_ = false;      ///< Somebody who asked gently waits.
  Clock::TimePoint gently_again_{};  ///< The next one may ask then.
  bool profiles_ = false;  ///< The node has been asked for a profile, and somebody waits for it.
  std::optional<Profile> profile_;
  std::string profiler_;               ///< That has asked for the latest.
  Clock::TimePoint profiler_until_{};  ///< Nobody else may before.
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_ANSWERS_QUESTION_DESK_H_
