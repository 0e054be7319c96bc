#include "control/ask/node_loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tfos::control {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kStatus = "/v1/status";
const std::string kFailure = "/v1/failure?wait_ms=2000";
/// Nodes 1 and 2 were fed, 3 was not.
const std::set<int> kFed = {1, 2};

std::string Nodes(const std::vector<std::string>& states, const json& failure = nullptr) {
  json nodes = json::array();
  for (std::size_t i = 0; i < states.size(); ++i) {
    nodes.push_back({{"node_id", i + 1}, {"state", states[i]}});
  }
  return json{{"failure", failure}, {"nodes", nodes}}.dump();
}

/// Answers in the order given; the last answer for a target stays.
class Coordinator {
 public:
  std::map<std::string, std::vector<std::optional<std::string>>> answers;
  std::vector<std::string> asked;

  NodeLoss Explain() {
    return ExplainNodeLoss(kFed, [&](const std::string& target, std::chrono::milliseconds) {
      asked.push_back(target);
      auto& left = answers[target];
      if (left.empty()) return std::optional<std::string>();
      auto answer = left.front();
      if (left.size() > 1) left.erase(left.begin());
      return answer;
    });
  }
};

// To copy it would take more stack than there is.
TEST(NodeLossTest, AnAnswerThatIsNestedWithoutEndIsNone) {
  const std::string endless =
      R"({"nodes":)" + std::string(1'000'000, '[') + std::string(1'000'000, ']') + "}";
  Coordinator coordinator;
  coordinator.answers = {{kStatus, {endless}}, {kFailure, {endless}}};
  EXPECT_EQ(coordinator.Explain().reason, LossReason::kUnknown);
}

TEST(NodeLossTest, ProgramsThatHaveReturnedWantNoRows) {
  Coordinator coordinator;
  coordinator.answers[kStatus] = {Nodes({"done", "lost", "running"})};
  EXPECT_EQ(coordinator.Explain().reason, LossReason::kProgramsReturned);
  EXPECT_THAT(coordinator.asked, ElementsAre(kStatus));
}

TEST(NodeLossTest, AFailureOfTheClusterExplainsIt) {
  Coordinator coordinator;
  coordinator.answers[kStatus] = {Nodes({"done", "done"}, {{"step", "x"}})};
  coordinator.answers[kFailure] = {R"({"step":"x"})"};
  const NodeLoss loss = coordinator.Explain();
  EXPECT_EQ(loss.reason, LossReason::kClusterFailed);
  EXPECT_EQ(loss.failure, R"({"step":"x"})");
}

TEST(NodeLossTest, ProgramsMayReturnWhileAFailureIsWaitedFor) {
  Coordinator coordinator;
  coordinator.answers[kStatus] = {Nodes({"done", "running"}), Nodes({"done", "done"})};
  EXPECT_EQ(coordinator.Explain().reason, LossReason::kProgramsReturned);
  EXPECT_THAT(coordinator.asked, ElementsAre(kStatus, kFailure, kStatus));
}

TEST(NodeLossTest, ANodeThatRunsExplainsNothing) {
  for (const char* state :
       {"expected", "starting", "registered", "running", "draining", "failed"}) {
    Coordinator coordinator;
    coordinator.answers[kStatus] = {Nodes({"done", state})};
    EXPECT_EQ(coordinator.Explain().reason, LossReason::kUnknown) << state;
  }
}

TEST(NodeLossTest, ACoordinatorThatIsGoneOrTalksNonsenseExplainsNothing) {
  for (const std::optional<std::string>& answer :
       {std::optional<std::string>(), std::optional<std::string>("{"),
        std::optional<std::string>("[]"), std::optional<std::string>(R"({"nodes":7})"),
        std::optional<std::string>(R"({"nodes":[7]})"),
        std::optional<std::string>(R"({"nodes":[{"state":"done"}]})")}) {
    Coordinator coordinator;
    coordinator.answers[kStatus] = {answer};
    coordinator.answers[kFailure] = {answer == "{" ? answer : std::nullopt};
    EXPECT_EQ(coordinator.Explain().reason, LossReason::kUnknown) << answer.value_or("nothing");
  }
}

TEST(NodeLossTest, APlanWithoutACoordinatorIsRefusedWithoutItsKey) {
  for (const char* coordinator : {R"("h:1")", R"({"address":"h","port":70000})", "null"}) {
    const auto loss = WhyNodeWasLost(
        std::string(R"({"ask_key":"secret","encrypt":"auto","endpoints":[],"coordinator":)") +
            coordinator + "}",
        {});
    EXPECT_EQ(loss.status().kind(), ErrorKind::kBadInput);
    EXPECT_THAT(loss.status().ToString(), HasSubstr("where the coordinator is"));
    EXPECT_THAT(loss.status().ToString(), Not(HasSubstr("secret")));
  }
  EXPECT_EQ(WhyNodeWasLost("secret", {}).status().kind(), ErrorKind::kBadInput);
}

}  // namespace
}  // namespace tfos::control
