#include "control/agent/answers/question_desk.h"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
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

void QuestionDesk::Begin(std::int64_t pid, const OutputLog& written, Ways ways) {
  pid_ = pid;
  written_ = &written;
  ways_ = std::move(ways);
}

void QuestionDesk::Take(const Question& question) {
  if (questions_ >= kMostQuestions) {
    Refuse(question.number, "too many ask this node at once. Ask again later");
    return;
  }
  ++questions_;
  Spawn(executor_, "answer a question", Answer(question), [this](const Status&) { --questions_; });
}

void QuestionDesk::OnOutput() { Wake(); }

void QuestionDesk::OnStacks(Stacks stacks) {
  gentle_stacks_ = {.count = gentle_stacks_.count + 1, .text = stacks.text};
  if (!stacks.gentle) {
    whole_stacks_ = {.count = whole_stacks_.count + 1, .text = std::move(stacks.text)};
  } else if (whole_stacks_.asked) {
    ways_.stacks(false);  // The node does one thing at a time.
  }
  Wake();
}

void QuestionDesk::OnProfile(Profile profile) {
  // One that comes too late is nobody's.
  if (!profiles_ || profile_.has_value()) return;
  profile_ = std::move(profile);
  Wake();
}

void QuestionDesk::OnNativeCalls(std::string text) {
  native_calls_ = {.count = native_calls_.count + 1, .text = std::move(text)};
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
    co_await AnswerAboutStacks(question.number, false);
  } else if (question.about == Question::kGentleStacks) {
    co_await AnswerGently(question.number);
  } else if (question.about == Question::kProfile) {
    co_await AnswerAboutProfile(std::move(question));
  } else {
    Refuse(question.number, fmt::format("this node's tfos can't tell its {}", question.about));
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

asio::awaitable<void> QuestionDesk::AnswerAboutStacks(int number, bool gentle) {
  Told& told = gentle ? gentle_stacks_ : whole_stacks_;
  const std::int64_t before = told.count;
  const Result<ProcessState> state = ReadProcessState(static_cast<pid_t>(pid_));
  if (pid_ != 0 && !ended_ && state.ok() && !StandsStill(*state)) {
    // Those who ask meanwhile share the answer. One that was asked for gently may have left out
    // what others want: it is awaited first.
    if (!gentle_stacks_.asked && !whole_stacks_.asked) ways_.stacks(gentle);
    told.asked = !gentle || !whole_stacks_.asked;
    const auto has_come = [this, &told, before] { return ended_ || told.count > before; };
    co_await Wait(has_come, Deadline::After(kStacksPatience));
    // Its answer may come later, and is the next one's then.
    if (told.count == before) told.asked = false;
  }
  const bool answered = told.count > before;
  const std::string text = answered ? told.text : std::string();
  // Before the threads stand for a moment: afterwards some system calls have another name, and a
  // frozen thread may look like one that runs.
  const std::string standstill = answered ? std::string() : DescribeStandstillNow();
  std::string rest = fmt::format("\nThreads of process {}, as the kernel sees them:\n{}", pid_,
                                 DescribeThreads(static_cast<pid_t>(pid_)));
  if (!gentle) {
    const std::string native = co_await FindNativeCalls();
    if (!native.empty()) rest = "\n" + native + rest;
  }
  Say(number, DescribeStacks(answered ? &text : nullptr, standstill, rest));
}

asio::awaitable<std::string> QuestionDesk::FindNativeCalls() {
  if (!HasThreads() || !ways_.native_calls) co_return std::string();
  const std::int64_t before = native_calls_.count;
  if (!native_calls_.asked) {
    ways_.native_calls();
    native_calls_.asked = native_calls_.count == before;
  }
  const auto has_come = [this, before] { return ended_ || native_calls_.count > before; };
  co_await Wait(has_come, Deadline::After(kNativePatience));
  if (native_calls_.count > before) co_return native_calls_.text;
  native_calls_.asked = false;
  co_return std::string("no native calls of threads: they were not found in time\n");
}

asio::awaitable<void> QuestionDesk::AnswerGently(int number) {
  if (answers_gently_ || clock_.Now() < gently_again_) {
    Refuse(number,
           "somebody else has just asked for this node's stacks, and they are taken once a second "
           "at most. Ask again");
    co_return;
  }
  answers_gently_ = true;
  std::exception_ptr thrown;
  try {
    co_await AnswerAboutStacks(number, true);
  } catch (...) {
    thrown = std::current_exception();
  }
  // Not in a destructor, which may run after that of the desk.
  answers_gently_ = false;
  gently_again_ = clock_.Now() + kGentlePause;
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

asio::awaitable<void> QuestionDesk::AnswerAboutProfile(Question question) {
  std::string why = WhyNoProfile(question.by);
  if (!why.empty()) {
    Refuse(question.number, std::move(why));
    co_return;
  }
  const auto time = std::min<std::chrono::milliseconds>(question.wait, kLongestWait);
  const bool goes_on = question.more;
  ways_.profile(time);
  profiles_ = true;
  profiler_ = std::move(question.by);
  profile_.reset();
  co_await Wait([this] { return ended_ || profile_.has_value(); },
                Deadline::After(time + kProfilePatience));
  profiles_ = false;
  profiler_until_ = {};
  if (profile_.has_value() && !profile_->failed) {
    if (goes_on) profiler_until_ = Clock::Steady().Now() + kProfileHold;
    Say(question.number, std::move(profile_->text));
  } else if (profile_.has_value()) {
    Refuse(question.number, std::move(profile_->text));
  } else if (ended_) {
    Refuse(question.number, "the node has ended while it was profiled");
  } else {
    Refuse(question.number, WhyNoAnswer());
  }
}

std::string QuestionDesk::WhyNoAnswer() const {
  return fmt::format("the node's process gives no answer: {}", DescribeStandstillNow());
}

std::string QuestionDesk::DescribeStandstillNow() const {
  const Result<ProcessState> state = ReadProcessState(static_cast<pid_t>(pid_));
  return state.ok() ? DescribeStandstill(*state) : std::string(state.status().message());
}

std::string QuestionDesk::WhyNoProfile(const std::string& by) const {
  if (pid_ == 0) return "the node's process has not been started yet";
  if (ended_) return "the node has ended";
  if (profiles_ || (profiler_ != by && Clock::Steady().Now() < profiler_until_)) {
    return fmt::format("{} profiles this node, and only one can at a time. Ask again later",
                       profiler_);
  }
  const Result<ProcessState> state = ReadProcessState(static_cast<pid_t>(pid_));
  return state.ok() && !StandsStill(*state) ? "" : WhyNoAnswer();
}

bool QuestionDesk::HasThreads() const {
  if (pid_ == 0 || ended_) return false;
  const Result<ProcessState> state = ReadProcessState(static_cast<pid_t>(pid_));
  return state.ok() && !state->dumping_core && state->state != 'Z' && state->state != 'X';
}

std::string QuestionDesk::DescribeStacks(const std::string* told, const std::string& standstill,
                                         const std::string& rest) const {
  if (pid_ == 0) return "the node's process has not been started yet\n";
  if (ended_) return "the node has ended\n";
  std::string text;
  if (told != nullptr && told->empty()) {
    text = "the node runs no Python, or has not come to it yet\n";
  } else if (told != nullptr) {
    text = *told;
  } else {
    text = fmt::format("no stacks of Python: the process gives no answer: {}\n", standstill);
  }
  return text + rest;
}

// Answers are made outside of coroutines: GCC 12 destroys temporary aggregates in them twice.
void QuestionDesk::Say(int number, std::string text) const {
  send_({.number = number, .text = std::move(text), .ended = ended_});
}

void QuestionDesk::Refuse(int number, std::string why) const {
  send_({.number = number, .text = std::move(why), .ended = ended_, .refused = true});
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
