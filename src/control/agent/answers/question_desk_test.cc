#include "control/agent/answers/question_desk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <memory>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/process/subprocess.h"

namespace tfos::control {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

class QuestionDeskTest : public ::testing::Test {
 protected:
  void Begin(pid_t pid = ::getpid()) {
    desk_.Begin(pid, written_,
                {.stacks =
                     [this](bool gentle) {
                       ThrowIfWanted();
                       (gentle ? asked_gently_ : asked_stacks_) += 1;
                     },
                 .profile =
                     [this](milliseconds time) {
                       ThrowIfWanted();
                       asked_profiles_.push_back(time);
                     },
                 .native_calls =
                     [this] {
                       ThrowIfWanted();
                       asked_native_calls_ += 1;
                       if (!native_calls_.empty()) desk_.OnNativeCalls(native_calls_);
                     }});
  }
  /// As where memory runs out.
  void ThrowIfWanted() {
    if (std::exchange(throws_, false)) throw std::bad_alloc();
  }
  void Ask(Question question) {
    question.number = ++number_;
    desk_.Take(question);
    Run();
  }
  void AskForOutput(std::int64_t after, milliseconds wait = milliseconds(0)) {
    Ask({.about = std::string(Question::kOutput),
         .after = after,
         .lines = 2,
         .wait = wait,
         .by = ""});
  }
  void AskForProfile(const std::string& by, bool more = false,
                     milliseconds time = milliseconds(1000)) {
    Ask({.about = std::string(Question::kProfile), .wait = time, .by = by, .more = more});
  }
  void AskForStacks() { Ask({.about = std::string(Question::kStacks), .by = ""}); }
  void AskGently() { Ask({.about = std::string(Question::kGentleStacks), .by = ""}); }
  void Write(const std::string& text) {
    written_.Add(text);
    desk_.OnOutput();
    Run();
  }
  /// Whatever can go on now does.
  void Run() {
    io_.restart();
    io_.poll();
  }
  void AwaitAnswers(std::size_t count) {
    while (answers_.size() < count) {
      io_.restart();
      io_.run_one();
    }
  }

  boost::asio::io_context io_;
  OutputLog written_;
  std::vector<Answer> answers_;
  int asked_stacks_ = 0;
  int asked_gently_ = 0;
  int asked_native_calls_ = 0;
  std::string native_calls_ = "Native calls\n";  ///< Told at once; empty: later.
  std::vector<milliseconds> asked_profiles_;
  int number_ = 0;
  bool throws_ = false;  ///< Whatever the desk calls next.
  ManualClock clock_;
  QuestionDesk desk_{io_.get_executor(),
                     [this](const Answer& answer) {
                       ThrowIfWanted();
                       answers_.push_back(answer);
                     },
                     clock_};
};

TEST_F(QuestionDeskTest, TellsTheLastLinesAndWhatFollows) {
  Begin();
  Write("a\nb\nc\n");
  AskForOutput(-1);
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_EQ(answers_[0].number, 1);
  EXPECT_EQ(answers_[0].text, "b\nc\n");
  EXPECT_EQ(answers_[0].from, 2);
  EXPECT_EQ(answers_[0].next, 6);
  EXPECT_FALSE(answers_[0].ended);
  AskForOutput(0);
  EXPECT_EQ(answers_[1].text, "a\nb\nc\n");
  AskForOutput(6);
  EXPECT_EQ(answers_[2].text, "");
}

TEST_F(QuestionDeskTest, WaitsForOutput) {
  Begin();
  AskForOutput(0, std::chrono::hours(1));
  AskForOutput(0, std::chrono::hours(1));
  EXPECT_THAT(answers_, IsEmpty());
  Write("a\n");
  AwaitAnswers(2);
  EXPECT_EQ(answers_[0].text, "a\n");
  EXPECT_EQ(answers_[1].text, "a\n");
}

TEST_F(QuestionDeskTest, AnAnswerIsBounded) {
  Begin();
  for (int i = 0; i < 1000; ++i) Write(std::string(999, 'x') + "\n");
  AskForOutput(0);
  EXPECT_LE(answers_[0].text.size(), QuestionDesk::kMostBytes);
  EXPECT_EQ(answers_[0].next % 1000, 0);
  Ask({.about = std::string(Question::kOutput), .lines = 100'000, .by = ""});
  EXPECT_LE(answers_[1].text.size(), QuestionDesk::kMostBytes);
  EXPECT_EQ(answers_[1].next, 1'000'000);
}

TEST_F(QuestionDeskTest, TooManyAreTurnedAway) {
  Begin();
  for (std::size_t i = 0; i < QuestionDesk::kMostQuestions; ++i) {
    AskForOutput(0, std::chrono::hours(1));
  }
  AskForOutput(0);
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_THAT(answers_[0].text, HasSubstr("too many"));
  EXPECT_TRUE(answers_[0].refused);
  Write("a\n");
  AwaitAnswers(1 + QuestionDesk::kMostQuestions);
  AskForOutput(0);
  EXPECT_EQ(answers_.back().text, "a\n");
}

TEST_F(QuestionDeskTest, TheEndOfANodeIsToldOnceAndToNobodyInParticular) {
  Begin();
  Write(std::string(20'000, 'x') + "\nlast\n");
  desk_.End();
  desk_.End();
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_EQ(answers_[0].number, Answer::kUnasked);
  EXPECT_EQ(answers_[0].text.size(), QuestionDesk::kLastBytes);
  EXPECT_THAT(answers_[0].text, HasSubstr("\nlast\n"));
  EXPECT_TRUE(answers_[0].ended);
}

TEST_F(QuestionDeskTest, WhoeverFollowsGetsAllThatANodeWroteInTheEnd) {
  Begin();
  Write("a\n");
  AskForOutput(2, std::chrono::hours(1));
  written_.Add(std::string(20'000, 'x'));
  desk_.End();
  Run();
  ASSERT_THAT(answers_, SizeIs(1));  // The coordinator answers with it.
  EXPECT_EQ(answers_[0].from, 0);
  EXPECT_EQ(answers_[0].next, 20'002);
}

TEST_F(QuestionDeskTest, StacksHaveBothHalves) {
  Begin();
  AskForStacks();
  AskForStacks();
  EXPECT_EQ(asked_stacks_, 1);
  desk_.OnStacks({.text = "Thread 1 of Python\n"});
  AwaitAnswers(2);
  for (const Answer& answer : answers_) {
    EXPECT_THAT(answer.text, AllOf(HasSubstr("Thread 1 of Python"), HasSubstr(" s of CPU")));
  }
  AskForStacks();
  EXPECT_EQ(asked_stacks_, 2);
  desk_.OnStacks({.text = ""});
  AwaitAnswers(3);
  EXPECT_THAT(answers_[2].text, HasSubstr("runs no Python"));
}

TEST_F(QuestionDeskTest, NativeCallsFollowThoseOfPython) {
  native_calls_ = "";
  Begin();
  AskForStacks();
  AskForStacks();
  EXPECT_EQ(asked_native_calls_, 0);
  desk_.OnStacks({.text = "Thread 1 of Python\n"});
  Run();
  EXPECT_EQ(asked_native_calls_, 1) << "they share the answer";
  EXPECT_THAT(answers_, IsEmpty());
  desk_.OnNativeCalls("Native calls\n");
  AwaitAnswers(2);
  for (const Answer& answer : answers_) {
    EXPECT_THAT(answer.text, HasSubstr("Thread 1 of Python\n\nNative calls\n\nThreads of"));
  }
  AskGently();
  desk_.OnStacks({.text = "With the lock\n", .gentle = true});
  AwaitAnswers(3);
  EXPECT_THAT(answers_[2].text, HasSubstr("With the lock\n\nThreads of"));
  EXPECT_EQ(asked_native_calls_, 1) << "it stops threads";
}

TEST_F(QuestionDeskTest, ANodeThatEndsIsNotAwaited) {
  native_calls_ = "";
  Begin();
  AskForStacks();
  desk_.OnStacks({.text = "Thread 1 of Python\n"});
  Run();
  desk_.End();
  AwaitAnswers(2);
  EXPECT_EQ(answers_[1].text, "the node has ended\n");
}

TEST_F(QuestionDeskTest, GentleStacksAreTakenOnceASecondAtMost) {
  Begin();
  AskGently();
  AskGently();
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_TRUE(answers_[0].refused);
  EXPECT_THAT(answers_[0].text, HasSubstr("once a second"));
  desk_.OnStacks({.text = "With the lock\n", .gentle = true});
  AwaitAnswers(2);
  EXPECT_EQ(answers_[1].number, 1);
  EXPECT_FALSE(answers_[1].refused);
  EXPECT_THAT(answers_[1].text, AllOf(HasSubstr("With the lock"), HasSubstr(" s of CPU")));
  clock_.Advance(QuestionDesk::kGentlePause - milliseconds(1));
  AskGently();
  ASSERT_THAT(answers_, SizeIs(3));
  EXPECT_TRUE(answers_[2].refused);
  clock_.Advance(milliseconds(1));
  AskGently();
  EXPECT_EQ(asked_gently_, 2);
  desk_.OnStacks({.text = "Again\n", .gentle = true});
  AwaitAnswers(4);
  EXPECT_THAT(answers_[3].text, HasSubstr("Again"));
  EXPECT_EQ(asked_stacks_, 0) << "nobody who may has asked for more";
}

TEST_F(QuestionDeskTest, AGentleAnswerIsNotWhatOthersAskFor) {
  Begin();
  AskGently();
  AskForStacks();
  EXPECT_EQ(asked_gently_, 1);
  EXPECT_EQ(asked_stacks_, 0) << "the node is busy";
  desk_.OnStacks({.text = "left out\n", .gentle = true});
  AwaitAnswers(1);
  EXPECT_EQ(answers_[0].number, 1);
  EXPECT_THAT(answers_[0].text, HasSubstr("left out"));
  EXPECT_EQ(asked_stacks_, 1);
  // What is taken for others is good enough for those who ask gently.
  clock_.Advance(QuestionDesk::kGentlePause);
  AskGently();
  EXPECT_EQ(asked_gently_, 1);
  desk_.OnStacks({.text = "Thread 1\n"});
  AwaitAnswers(3);
  for (std::size_t i : {1, 2}) EXPECT_THAT(answers_[i].text, HasSubstr("Thread 1"));
}

TEST_F(QuestionDeskTest, AnAnswerThatFailsKeepsNobodyElseFromAsking) {
  Begin();
  // The node can't be asked.
  throws_ = true;
  AskGently();
  clock_.Advance(QuestionDesk::kGentlePause);
  AskGently();
  EXPECT_EQ(asked_gently_, 1);
  // Its answer can't be sent.
  throws_ = true;
  desk_.OnStacks({.text = "lost\n", .gentle = true});
  Run();
  clock_.Advance(QuestionDesk::kGentlePause);
  AskGently();
  EXPECT_EQ(asked_gently_, 2);
  desk_.OnStacks({.text = "With the lock\n", .gentle = true});
  Run();
  ASSERT_THAT(answers_, SizeIs(1));
  EXPECT_THAT(answers_[0].text, HasSubstr("With the lock"));

  throws_ = true;
  AskForStacks();
  AskForStacks();
  EXPECT_EQ(asked_stacks_, 1);

  throws_ = true;
  AskForProfile("alice@a.1");
  AskForProfile("bob@b.2");
  EXPECT_THAT(asked_profiles_, SizeIs(1));
}

TEST_F(QuestionDeskTest, OneAtATimeProfilesANode) {
  Begin();
  AskForProfile("alice@a.1", true, std::chrono::hours(1));
  EXPECT_THAT(asked_profiles_, ElementsAre(milliseconds(QuestionDesk::kLongestWait)));
  AskForProfile("bob@b.2");
  AskForProfile("alice@a.1");
  ASSERT_THAT(answers_, SizeIs(2));
  for (const Answer& answer : answers_) {
    EXPECT_TRUE(answer.refused);
    EXPECT_THAT(answer.text, HasSubstr("alice@a.1 profiles this node"));
  }
  desk_.OnProfile({.text = "{}"});
  desk_.OnProfile({.text = "of nobody"});
  AwaitAnswers(3);
  EXPECT_EQ(answers_[2].number, 1);
  EXPECT_EQ(answers_[2].text, "{}");
  EXPECT_FALSE(answers_[2].refused);
  // The one that has it may go on at once, and others after its end.
  AskForProfile("bob@b.2");
  EXPECT_TRUE(answers_[3].refused);
  AskForProfile("alice@a.1");
  EXPECT_THAT(asked_profiles_, SizeIs(2));
  desk_.OnProfile({.text = "{}"});
  AwaitAnswers(5);
  AskForProfile("bob@b.2", true);
  EXPECT_THAT(asked_profiles_, SizeIs(3));
  desk_.OnProfile({.text = "no Python", .failed = true});
  AwaitAnswers(6);
  EXPECT_TRUE(answers_[5].refused);
  EXPECT_EQ(answers_[5].text, "no Python");
  AskForProfile("alice@a.1");
  EXPECT_THAT(asked_profiles_, SizeIs(4));
}

TEST_F(QuestionDeskTest, ANodeThatEndsInMidProfileIsToldOf) {
  Begin();
  AskForProfile("alice@a.1");
  desk_.End();
  AwaitAnswers(2);
  EXPECT_EQ(answers_[1].number, 1);
  EXPECT_TRUE(answers_[1].refused);
  EXPECT_THAT(answers_[1].text, HasSubstr("has ended while it was profiled"));
  AskForProfile("alice@a.1");
  EXPECT_EQ(answers_[2].text, "the node has ended");
  EXPECT_THAT(asked_profiles_, SizeIs(1));
}

TEST_F(QuestionDeskTest, AProcessThatIsStoppedIsNotAsked) {
  auto process = Subprocess::Start({.argv = {"/bin/sleep", "600"}});
  ASSERT_TRUE(process.ok());
  const pid_t pid = (*process)->pid();
  ::kill(pid, SIGSTOP);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOWAIT), 0);
  Begin(pid);
  AskForStacks();
  AskForProfile("alice@a.1");
  AskGently();
  EXPECT_EQ(asked_stacks_ + asked_gently_, 0);
  EXPECT_THAT(asked_profiles_, IsEmpty());
  ASSERT_THAT(answers_, SizeIs(3));
  EXPECT_TRUE(answers_[1].refused);
  EXPECT_THAT(answers_[1].text, HasSubstr("it is frozen (stopped by SIGSTOP"));
  EXPECT_THAT(answers_[0].text, AllOf(HasSubstr("it is frozen (stopped by SIGSTOP"),
                                      HasSubstr("\n\nNative calls\n\nThreads of"),
                                      HasSubstr("sleep            is frozen")));
  EXPECT_THAT(answers_[2].text,
              AllOf(HasSubstr("it is frozen (stopped by SIGSTOP"), Not(HasSubstr("Native calls"))));
}

// To find native calls stops threads and lets go of them, and one that was frozen may run a moment.
TEST_F(QuestionDeskTest, AProcessIsCalledWhatItWasBeforeItsNativeCallsWereFound) {
  auto process = Subprocess::Start({.argv = {"/bin/sleep", "600"}});
  ASSERT_TRUE(process.ok());
  const auto pid = (*process)->pid();
  ::kill(pid, SIGSTOP);
  siginfo_t info;
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WSTOPPED | WNOWAIT), 0);
  Begin(pid);
  native_calls_ = "";
  AskForStacks();
  ASSERT_THAT(answers_, IsEmpty());
  ::kill(pid, SIGCONT);
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(pid), &info, WCONTINUED | WNOWAIT), 0);
  desk_.OnNativeCalls("Native calls\n");
  AwaitAnswers(1);
  EXPECT_THAT(answers_[0].text, HasSubstr("it is frozen (stopped by SIGSTOP"));
}

TEST_F(QuestionDeskTest, BeforeTheProcessThereIsNothingToTell) {
  AskForStacks();
  AskForOutput(-1);
  ASSERT_THAT(answers_, SizeIs(2));
  EXPECT_THAT(answers_[0].text, HasSubstr("has not been started"));
  EXPECT_EQ(answers_[1].text, "");
  Ask({.about = "weather", .by = ""});
  EXPECT_THAT(answers_[2].text, HasSubstr("can't tell its weather"));
  EXPECT_TRUE(answers_[2].refused);
}

}  // namespace
}  // namespace tfos::control
