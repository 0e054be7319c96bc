#include "control/coordinator/operations.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/text/query.h"
#include "base/time/deadline.h"
#include "control/link/async_latch.h"
#include "control/messages/parts/message_text.h"

namespace tfos::control {

namespace asio = boost::asio;

namespace {

constexpr std::size_t kLongestName = 256;
constexpr std::int64_t kMostMilliseconds = 24LL * 3600 * 1000;

bool ReadTime(std::string_view text, std::chrono::milliseconds& time) {
  std::int64_t count = 0;
  if (!ReadNumber(text, std::int64_t{0}, kMostMilliseconds, count)) return false;
  time = std::chrono::milliseconds(count);
  return true;
}

bool IsName(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("@.-_").find(c) != std::string_view::npos;
  });
}

// Answers are made outside of coroutines: GCC 12 destroys temporary aggregates in them twice.
HttpAnswer Refusal(int status, std::string_view text) {
  return {.status = status,
          .content_type = "text/plain; charset=utf-8",
          .body = fmt::format("{}\n", text)};
}

HttpAnswer Told(const Answer& answer) {
  if (answer.refused) return Refusal(409, answer.text);
  return {.body = SerializeMessage(answer)};
}

Question QuestionAbout(std::string_view about, const OperationQuery& query) {
  return {.about = std::string(about),
          .after = query.after,
          .lines = query.lines,
          .wait = query.wait,
          .by = query.by,
          .more = query.more == 1};
}

/// The text of an answer or of a refusal. Of a long one the beginning: Python's stacks are there.
std::string StacksIn(const HttpAnswer& answer) {
  const Result<AgentMessage> message = ParseMessage<AgentMessage>(answer.body);
  const auto* told = message.ok() ? std::get_if<Answer>(&*message) : nullptr;
  std::string text = told == nullptr ? answer.body : told->text;
  if (text.size() > Operations::kMostOfStacks) {
    text.erase(text.rfind('\n', Operations::kMostOfStacks) + 1);
    text += "...\n";
  }
  return text;
}

/// What follows a position in the end of an output.
Answer After(std::int64_t after, Answer answer) {
  const std::int64_t skipped = std::clamp(after, answer.from, answer.next) - answer.from;
  answer.text.erase(0, std::min(answer.text.size(), static_cast<std::size_t>(skipped)));
  answer.from += skipped;
  return answer;
}

}  // namespace

struct Operations::Pending {
  int node_id;
  Asker asker;
  bool about_output;
  std::int64_t after;
  AsyncLatch has_come;
  std::optional<Answer> answer = {};
};

Result<OperationQuery> OperationQuery::Parse(std::string_view query) {
  OperationQuery parsed;
  while (!query.empty()) {
    const std::string_view part = TakeUntil('&', query);
    std::string_view value = part;
    const std::string_view name = TakeUntil('=', value);
    bool good = false;
    if (name == "node") {
      good = ReadNumber(value, 0, std::numeric_limits<int>::max(), parsed.node_id);
    } else if (name == "after") {
      good = ReadNumber(value, std::int64_t{-1}, std::numeric_limits<std::int64_t>::max(),
                        parsed.after);
    } else if (name == "lines") {
      good = ReadNumber(value, 0, std::numeric_limits<int>::max(), parsed.lines);
    } else if (name == "wait_ms") {
      good = ReadTime(value, parsed.wait);
    } else if (name == "timeout_ms") {
      good = ReadTime(value, parsed.timeout);
    } else if (name == "by") {
      good = IsName(value);
      parsed.by = value;
    } else if (name == "more") {
      good = ReadNumber(value, 0, 1, parsed.more);
    }
    if (!good) {
      return Status(ErrorKind::kBadInput,
                    fmt::format("'{}' is wrong: expected node=N, after=N, lines=N, wait_ms=N, "
                                "timeout_ms=N, by=NAME and more=1, joined by &",
                                part));
    }
  }
  return parsed;
}

asio::awaitable<HttpAnswer> Operations::Output(std::string query, Asker asker) {
  const Result<OperationQuery> wanted = OperationQuery::Parse(query);
  std::optional<HttpAnswer> known = Refuse(wanted);
  if (!known.has_value()) known = KeptOutput(wanted->node_id, wanted->after);
  if (known.has_value()) co_return *std::move(known);
  // Named, not a temporary: GCC 12 destroys aggregates in an awaited call twice.
  Question question = QuestionAbout(Question::kOutput, *wanted);
  co_return co_await Ask(wanted->node_id, std::move(question), asker);
}

asio::awaitable<HttpAnswer> Operations::GentleStacks(std::string query, Asker asker) {
  const Result<OperationQuery> wanted = OperationQuery::Parse(query);
  std::optional<HttpAnswer> known = Refuse(wanted);
  if (known.has_value()) co_return *std::move(known);
  Question question = QuestionAbout(Question::kGentleStacks, *wanted);
  question.wait = std::chrono::milliseconds(0);
  co_return co_await Ask(wanted->node_id, std::move(question), asker);
}

asio::awaitable<HttpAnswer> Operations::Post(std::string target, std::string query) {
  const Result<OperationQuery> wanted = OperationQuery::Parse(query);
  if (target == "/v1/stop") co_return Stop(wanted);
  const bool profile = target == "/v1/profile";
  if (target != "/v1/stacks" && !profile) {
    co_return Refusal(404, "there is nothing of this name to be done");
  }
  std::optional<HttpAnswer> known = Refuse(wanted);
  if (known.has_value()) co_return *std::move(known);
  if (profile && wanted->by.empty()) {
    co_return Refusal(400, "by=NAME is missing: it says who asks for the profile");
  }
  Question question = QuestionAbout(profile ? Question::kProfile : Question::kStacks, *wanted);
  co_return co_await Ask(wanted->node_id, std::move(question), Asker::kOperator);
}

asio::awaitable<std::string> Operations::StacksOf(int node_id) {
  Question question = QuestionAbout(Question::kStacks, OperationQuery());
  const HttpAnswer answer = co_await Ask(node_id, std::move(question), Asker::kOperator);
  co_return StacksIn(answer);
}

std::optional<HttpAnswer> Operations::Refuse(const Result<OperationQuery>& query) const {
  if (!query.ok()) return Refusal(400, query.status().message());
  const std::size_t nodes = roster_->node_count();
  if (query->node_id < 0 || static_cast<std::size_t>(query->node_id) >= nodes) {
    return Refusal(404, fmt::format("the cluster has no node of this number; it has {}", nodes));
  }
  return std::nullopt;
}

std::optional<HttpAnswer> Operations::KeptOutput(int node_id, std::int64_t after) const {
  const auto kept = kept_.find(node_id);
  if (kept == kept_.end()) return std::nullopt;
  return Told(After(after, kept->second));
}

HttpAnswer Operations::WithoutAgent(int node_id) const {
  const NodeState state = roster_->StateOf(node_id);
  if (state == NodeState::kExpected) {
    return Refusal(409, "its agent has not come yet, so nothing is known of the node");
  }
  if (!IsFinal(state)) return Refusal(504, "the connection to its agent is gone");
  return Refusal(410, fmt::format("the node is {}, and its output is in its executor's log",
                                  NodeStateName(state)));
}

HttpAnswer Operations::Stop(const Result<OperationQuery>& query) {
  if (!query.ok()) return Refusal(400, query.status().message());
  if (query->by.empty()) return Refusal(400, "by=NAME is missing: who asks for the end?");
  if (roster_->failure().has_value()) return Refusal(409, "the cluster has failed, and ends");
  if (roster_->finished()) return Refusal(409, "all nodes have ended");
  ways_.to_driver({.by = query->by, .timeout = query->timeout});
  return {.body = "{}"};
}

bool Operations::HasRoom(int node_id, Asker asker) const {
  if (pending_.size() >= kMostQuestions) return false;
  if (asker == Asker::kOperator) return true;
  std::size_t of_readers = 0;
  std::size_t at_the_node = 0;
  for (const auto& [number, asked] : pending_) {
    if (asked->asker == Asker::kOperator) continue;
    ++of_readers;
    if (asked->node_id == node_id) ++at_the_node;
  }
  return of_readers < kMostOfReaders && at_the_node < kMostOfReadersAtANode;
}

asio::awaitable<HttpAnswer> Operations::Ask(int node_id, Question question, Asker asker) {
  if (!HasRoom(node_id, asker)) {
    co_return Refusal(503, "too many ask at once; ask again");
  }
  question.wait = std::min<std::chrono::milliseconds>(question.wait, kMostWait);
  question.number = next_;
  next_ = next_ == std::numeric_limits<int>::max() ? 0 : next_ + 1;
  const bool about_output = question.about == Question::kOutput;
  Pending pending{.node_id = node_id,
                  .asker = asker,
                  .about_output = about_output,
                  .after = question.after,
                  .has_come = AsyncLatch(executor_)};
  const bool is_there = ways_.to_agent(node_id, question);
  if (!is_there) co_return WithoutAgent(node_id);
  pending_[question.number] = &pending;
  co_await pending.has_come.Wait(Deadline::After(question.wait + kAgentPatience));
  pending_.erase(question.number);
  if (!pending.answer.has_value()) {
    co_return Refusal(504, "its agent gave no answer: its host may be overloaded or gone");
  }
  co_return Told(*pending.answer);
}

void Operations::Take(int node_id, Answer answer) {
  if (answer.number != Answer::kUnasked) {
    const auto asked = pending_.find(answer.number);
    // One that comes too late is nobody's.
    if (asked == pending_.end() || asked->second->node_id != node_id) return;
    asked->second->answer = std::move(answer);
    asked->second->has_come.Open();
    return;
  }
  for (const auto& [number, asked] : pending_) {
    if (asked->node_id != node_id || !asked->about_output || asked->has_come.open()) continue;
    asked->answer = After(asked->after, answer);
    asked->has_come.Open();
  }
  if (kept_.contains(node_id)) return;
  kept_bytes_ += answer.text.size();
  ended_.push_back(node_id);
  kept_.emplace(node_id, std::move(answer));
  while (kept_bytes_ > kMostKeptBytes) {
    kept_bytes_ -= kept_.at(ended_.front()).text.size();
    kept_.erase(ended_.front());
    ended_.pop_front();
  }
}

void Operations::OnCame(int node_id) {
  OnGone(node_id);  // Those that asked the agent before this one get no answer.
  const auto kept = kept_.find(node_id);
  if (kept == kept_.end()) return;
  kept_bytes_ -= kept->second.text.size();
  kept_.erase(kept);
  std::erase(ended_, node_id);
}

void Operations::OnGone(int node_id) {
  for (const auto& [number, asked] : pending_) {
    if (asked->node_id == node_id) asked->has_come.Open();
  }
}

}  // namespace tfos::control
