#include "control/messages/parts/shared_messages.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "control/messages/parts/message_text.h"

namespace tfos::control {
namespace {

using nlohmann::json;

TEST(MessageTextTest, TellsAnObjectOfJsonFromAnythingElse) {
  EXPECT_TRUE(IsJsonObject(R"({"type":"state","state":7})"));
  EXPECT_FALSE(IsJsonObject("Segmentation fault"));
  EXPECT_FALSE(IsJsonObject("[1]"));
}

TEST(MessageTextTest, BytesThatAreNoUtf8AreReplaced) {
  FailureMessage message;
  message.failure.message = "bad \xff byte";
  EXPECT_EQ(json::parse(SerializeMessage(message))["failure"]["message"], "bad \xEF\xBF\xBD byte");
}

TEST(NodeInfoTest, EveryStateHasAName) {
  EXPECT_EQ(NodeStateName(NodeState::kExpected), "expected");
  EXPECT_EQ(NodeStateName(NodeState::kLost), "lost");
  EXPECT_EQ(NodeStateName(NodeState::kStopped), "stopped");
  EXPECT_FALSE(IsFinal(NodeState::kDraining));
  EXPECT_TRUE(IsFinal(NodeState::kDone));
}

}  // namespace
}  // namespace tfos::control
