#include "control/agent/answers/question_desk.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "base/format.h"
#include "base/process/process_state.h"
#include "control/agent/answers/thread_states.h"
#include "control/link/spawn.h"

namespace tfos::control {

namespace asio = boost::asio;

namespace {

constexpr auto kNoThrow = asio::as_tuple(asio::use_awaitable);

/// Whether a process in this state can't say anything.
bool StandsStill(const ProcessState& state) {
  return state.dumping_core || state.state == 'T' || state.state == 't' || state.state == 'Z' ||
         state.state == 'X';
}

}  // namespace

void QuestionDesk::Begin(std::int64_t pid, const OutputLog& written,
                         std::function<void()> ask_stacks) {
  pid_ = pid;
  written_ = &written;
  ask_stacks_ = std::move(ask_stacks);
}

void QuestionDesk::Take(const Question& question) {
  if (questions_ >= kMostQuestions) {
    Say(question.number, "too many ask this node at once; ask again\n");
    return;
  }
  ++questions_;
  Spawn(executor_, "answer a question", Answer(question), [this](const Status&) { --questions_; });
}

void QuestionDesk::OnOutput() { Wake(); }

void QuestionDesk::OnStacks(std::string text) {
  stacks_ = std::move(text);
  asks_stacks_ = false;
  ++stacks_count_;
  Wake();
}

void QuestionDesk::End() {
  if (written_ == nullptr || std::exchange(ended_, true)) return;
  const std::size_t most = was_asked_for_output_ ? kMostBytes : kLastBytes;
  Tell(control::Answer::kUnasked, written_->Last(most, most));
  Wake();
}

void QuestionDesk::Wake() {
  for (asio::steady_timer* timer : waiting_) timer->cancel();
}

asio::awaitable<void> QuestionDesk::Answer(Question question) {
  if (question.about == Question::kOutput) {
    co_await AnswerAboutOutput(std::move(question));
  } else if (question.about == Question::kStacks) {
    co_await AnswerAboutStacks(question.number);
  } else {
    Say(question.number, fmt::format("this node's tfos can't tell its {}\n", question.about));
  }
  --questions_;
}

asio::awaitable<void> QuestionDesk::AnswerAboutOutput(Question question) {
  was_asked_for_output_ = true;
  const std::int64_t after = question.after;
  const auto is_news = [this, after] {
    return ended_ || (written_ != nullptr && (after < 0 || written_->end() > after));
  };
  const auto patience = std::min<Clock::Duration>(question.wait, kLongestWait);
  if (!is_news() && patience.count() > 0) {
    co_await Wait(is_news, Deadline::After(patience));
    if (is_news()) co_await Wait([this] { return ended_; }, Deadline::After(kCollect));
  }
  if (ended_) co_return;  // The end of the output has been sent.
  OutputLog::Piece piece;
  if (written_ != nullptr && after < 0) {
    piece = written_->Last(static_cast<std::size_t>(question.lines), kMostBytes);
  } else if (written_ != nullptr) {
    piece = written_->After(after, kMostBytes);
  }
  Tell(question.number, piece);
}

asio::awaitable<void> QuestionDesk::AnswerAboutStacks(int number) {
  bool answered = false;
  const Result<ProcessState> state = ReadProcessState(static_cast<pid_t>(pid_));
  if (pid_ != 0 && !ended_ && state.ok() && !StandsStill(*state)) {
    // Those who ask meanwhile share the answer.
    if (!std::exchange(asks_stacks_, true)) ask_stacks_();
    const std::int64_t before = stacks_count_;
    const auto has_come = [this, before] { return ended_ || stacks_count_ > before; };
    co_await Wait(has_come, Deadline::After(kStacksPatience));
    answered = stacks_count_ > before;
    // Its answer may come later, and is the next one's then.
    if (!answered) asks_stacks_ = false;
  }
  Say(number, DescribeStacks(answered));
}

std::string QuestionDesk::DescribeStacks(bool answered) const {
  if (pid_ == 0) return "the node's process has not been started yet\n";
  if (ended_) return "the node has ended\n";
  const Result<ProcessState> state = ReadProcessState(static_cast<pid_t>(pid_));
  std::string text;
  if (answered && stacks_.empty()) {
    text = "the node runs no Python, or has not come to it yet\n";
  } else if (answered) {
    text = stacks_;
  } else {
    text = fmt::format(
        "no stacks of Python: the process gives no answer. {}\n",
        state.ok() ? DescribeStandstill(*state) : std::string(state.status().message()));
  }
  return text + fmt::format("\nThreads of process {}, as the kernel sees them:\n{}", pid_,
                            DescribeThreads(static_cast<pid_t>(pid_)));
}

// Answers are made outside of coroutines: GCC 12 destroys temporary aggregates in them twice.
void QuestionDesk::Say(int number, std::string text) const {
  send_({.number = number, .text = std::move(text), .ended = ended_});
}

void QuestionDesk::Tell(int number, const OutputLog::Piece& piece) const {
  send_({.number = number,
         .text = std::string(piece.text),
         .from = piece.from,
         .next = piece.from + static_cast<std::int64_t>(piece.text.size()),
         .ended = ended_});
}

asio::awaitable<void> QuestionDesk::Wait(std::function<bool()> done, Deadline deadline) {
  // Each waiter has a timer of its own, which what happens cancels.
  asio::steady_timer timer(executor_, deadline.at());
  waiting_.insert(&timer);
  while (!done() && !deadline.passed()) co_await timer.async_wait(kNoThrow);
  waiting_.erase(&timer);
}

}  // namespace tfos::control
