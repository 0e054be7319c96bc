#ifndef TFOS_CONTROL_AGENT_ANSWERS_QUESTION_DESK_H_
#define TFOS_CONTROL_AGENT_ANSWERS_QUESTION_DESK_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "base/time/deadline.h"
#include "control/agent/child/output_log.h"
#include "control/messages/agent_messages.h"

namespace tfos::control {

/// Answers what people ask of a node: its output, and what its threads are at. A question about
/// output may wait for more of it, and costs a timer until then; those that ask keep nothing here.
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

  using Send = std::function<void(const Answer&)>;

  QuestionDesk(const boost::asio::any_io_executor& executor, Send send)
      : executor_(executor), send_(std::move(send)) {}

  /// The node's process has been started. `ask_stacks` asks it for `OnStacks`.
  void Begin(std::int64_t pid, const OutputLog& written, std::function<void()> ask_stacks);
  void Take(const Question& question);
  void OnOutput();
  void OnStacks(std::string text);
  /// The node has ended: sends the end of its output, which answers all that still ask.
  void End();

 private:
  boost::asio::awaitable<void> Answer(Question question);
  boost::asio::awaitable<void> AnswerAboutOutput(Question question);
  boost::asio::awaitable<void> AnswerAboutStacks(int number);
  /// Until `done`, or the deadline.
  boost::asio::awaitable<void> Wait(std::function<bool()> done, Deadline deadline);
  void Wake();
  void Say(int number, std::string text) const;
  void Tell(int number, const OutputLog::Piece& piece) const;
  std::string DescribeStacks(bool answered) const;

  boost::asio::any_io_executor executor_;
  const Send send_;
  std::int64_t pid_ = 0;  ///< 0 before it begins.
  const OutputLog* written_ = nullptr;
  std::function<void()> ask_stacks_;
  bool ended_ = false;
  bool was_asked_for_output_ = false;
  std::size_t questions_ = 0;
  std::set<boost::asio::steady_timer*> waiting_;
  bool asks_stacks_ = false;  ///< The node has been asked, and has not answered yet.
  std::int64_t stacks_count_ = 0;
  std::string stacks_;  ///< Its latest answer.
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_AGENT_ANSWERS_QUESTION_DESK_H_
