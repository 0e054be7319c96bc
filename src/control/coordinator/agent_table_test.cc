#include "control/coordinator/agent_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "control/messages/agent_messages.h"
#include "control/messages/parts/shared_messages.h"

namespace tfos::control {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Keeps what it is told to send.
class Connection final : public AgentConnection {
 public:
  void Send(OutgoingMessage message) override {
    if (message.shared != nullptr) message.own += *message.shared;
    sent.push_back(std::move(message.own));
  }
  void SendLatest(std::string_view kind, OutgoingMessage message) override {
    kinds.emplace_back(kind);
    Send(std::move(message));
  }
  void CloseAfterSending() override { ends = true; }
  void Abort() override { aborted = true; }
  void MarkIdentified() override { identified = true; }
  int node_id() const override { return 0; }

  std::vector<std::string> sent, kinds;
  bool ends = false, aborted = false, identified = false;
};

TEST(AgentTable, OneThatHasNotRegisteredSpeaksForNone) {
  AgentTable agents;
  Connection stranger;
  EXPECT_FALSE(agents.HasRegistered(stranger));
  EXPECT_FALSE(agents.StandsBy(stranger));
  EXPECT_EQ(agents.NodeItSpeaksFor(stranger), std::nullopt);
  EXPECT_EQ(agents.Remove(stranger), std::nullopt);
}

TEST(AgentTable, TheLatestOfANodeSpeaksForIt) {
  AgentTable agents;
  Connection first, second;
  agents.Take(first, 3);
  EXPECT_TRUE(first.identified);
  EXPECT_EQ(agents.NodeItSpeaksFor(first), 3);

  agents.Take(second, 3);
  EXPECT_EQ(agents.NodeItSpeaksFor(first), std::nullopt);
  EXPECT_EQ(agents.NodeItSpeaksFor(second), 3);
  EXPECT_TRUE(agents.HasRegistered(first)) << "it must not register again";

  EXPECT_TRUE(agents.Send(3, EndFeed{}));
  EXPECT_THAT(first.sent, IsEmpty());
  EXPECT_THAT(second.sent, ElementsAre(HasSubstr("end_feed")));

  // The end of the first one says nothing of the node.
  EXPECT_EQ(agents.Remove(first), std::nullopt);
  EXPECT_EQ(agents.NodeItSpeaksFor(second), 3);
  EXPECT_EQ(agents.Remove(second), 3);
  EXPECT_FALSE(agents.Send(3, EndFeed{}));
}

TEST(AgentTable, OfTicketsTheLatestOfAnEpochWait) {
  AgentTable agents;
  Connection connection;
  agents.Take(connection, 0);
  StepTickets tickets;
  tickets.queue = "input";
  tickets.epoch = 2;
  agents.Send(0, tickets);
  EXPECT_THAT(connection.kinds, ElementsAre("step_tickets input 2"));
}

TEST(AgentTable, AStartIsOfTwoParts) {
  AgentTable agents;
  Connection connection;
  agents.Take(connection, 1);
  const auto shared = std::make_shared<const std::string>("of all");
  agents.SendStart(0, "nobody's ", shared);
  agents.SendStart(1, "its own ", shared);
  EXPECT_THAT(connection.sent, ElementsAre("its own of all"));
}

TEST(AgentTable, ThoseThatStandByAreSentAwayWhenTheirNodeIsLost) {
  AgentTable agents;
  Connection taken, copy, of_another;
  agents.Take(taken, 0);
  agents.LetStandBy(copy, 0, "there is one");
  agents.LetStandBy(of_another, 1, "there is one");
  EXPECT_TRUE(copy.identified);
  EXPECT_TRUE(agents.StandsBy(copy));
  EXPECT_THAT(copy.sent, ElementsAre(HasSubstr("there is one")));

  NodeInfo node;
  node.node_id = 0;
  node.state = NodeState::kRunning;
  agents.Dismiss(node);
  EXPECT_FALSE(copy.ends);

  node.state = NodeState::kLost;
  node.detail = "its host is gone";
  agents.Dismiss(node);
  EXPECT_TRUE(copy.ends);
  EXPECT_THAT(copy.sent.back(), HasSubstr("its host is gone"));
  EXPECT_FALSE(of_another.ends);
  EXPECT_FALSE(taken.ends);

  EXPECT_EQ(agents.Remove(copy), std::nullopt);
  EXPECT_FALSE(agents.StandsBy(copy));
}

TEST(AgentTable, FewStandByForOneNode) {
  AgentTable agents;
  Connection of_another;
  agents.LetStandBy(of_another, 1, "there is one");
  std::array<Connection, AgentTable::kMostStandingBy + 2> copies;
  for (Connection& copy : copies) agents.LetStandBy(copy, 0, "there is one");
  EXPECT_TRUE(copies[0].aborted);
  EXPECT_TRUE(copies[1].aborted);
  EXPECT_FALSE(agents.StandsBy(copies[1]));
  for (std::size_t i = 2; i < copies.size(); ++i) {
    EXPECT_FALSE(copies[i].aborted) << i;
    EXPECT_TRUE(agents.StandsBy(copies[i])) << i;
  }
  EXPECT_FALSE(of_another.aborted);

  // One that has gone leaves its place.
  agents.Remove(copies[3]);
  Connection next;
  agents.LetStandBy(next, 0, "there is one");
  EXPECT_FALSE(copies[2].aborted);
}

TEST(AgentTable, OnlyTheOneThatSpeaksIsDisconnected) {
  AgentTable agents;
  Connection first, second;
  agents.Take(first, 0);
  agents.Take(second, 0);
  agents.Disconnect(0);
  agents.Disconnect(1);
  EXPECT_FALSE(first.aborted);
  EXPECT_TRUE(second.aborted);
}

}  // namespace
}  // namespace tfos::control
