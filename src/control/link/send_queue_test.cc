#include "control/link/send_queue.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "base/format.h"

namespace tfos::control {
namespace {

std::string PopAll(SendQueue<std::string>& queue) {
  std::string all;
  while (auto message = queue.Pop()) all += *message + " ";
  return all;
}

TEST(SendQueueTest, EventsKeepTheirOrder) {
  SendQueue<std::string> queue(100);
  EXPECT_TRUE(queue.empty());
  EXPECT_TRUE(queue.Push("a", 1));
  EXPECT_TRUE(queue.Push("b", 1));
  EXPECT_FALSE(queue.empty());
  EXPECT_EQ(PopAll(queue), "a b ");
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

TEST(SendQueueTest, AFullQueueTakesNoMoreUntilSomethingHasLeft) {
  SendQueue<std::string> queue(10);
  EXPECT_TRUE(queue.Push("a", 6));
  EXPECT_TRUE(queue.Push("b", 4));
  EXPECT_FALSE(queue.Push("c", 1));
  EXPECT_EQ(queue.Pop(), "a");
  EXPECT_TRUE(queue.Push("c", 6));
  EXPECT_FALSE(queue.Push("d", 1));
  queue.Clear();
  EXPECT_TRUE(queue.Push("e", 10));
  EXPECT_EQ(PopAll(queue), "e ");
}

TEST(SendQueueTest, OfStateOnlyTheLatestWaits) {
  SendQueue<std::string> queue(30);
  int made = 0;
  for (int step = 0; step < 1000; ++step) {
    queue.PushLatest("metrics", [&made, step] {
      ++made;
      return "step " + std::to_string(step);
    });
    if (step == 0) queue.Push("event", 5);
  }
  queue.PushLatest("tickets", [] { return std::string("tickets"); });
  EXPECT_EQ(PopAll(queue), "step 999 event tickets ");
  EXPECT_EQ(made, 1);
}

TEST(SendQueueTest, KindsOfStateThatAreEverNewFillTheQueue) {
  SendQueue<std::string> queue(100);
  const auto latest = [] { return std::string("state"); };
  int kinds = 0;
  while (kinds < 1000 && queue.PushLatest(fmt::format("epoch {:4}", kinds), latest)) ++kinds;
  EXPECT_EQ(kinds, 10);
  EXPECT_TRUE(queue.PushLatest("epoch    3", latest)) << "it takes no more than before";
  EXPECT_FALSE(queue.Push("event", 1));
  EXPECT_TRUE(queue.Pop().has_value());
  EXPECT_TRUE(queue.Push("event", 10));
}

TEST(SendQueueTest, WhatStateKeepsIsCounted) {
  SendQueue<std::string> queue(100);
  const auto latest = [] { return std::string("state"); };
  EXPECT_TRUE(queue.PushLatest("k", latest, 99));
  EXPECT_FALSE(queue.PushLatest("k", latest, 100));
  EXPECT_TRUE(queue.PushLatest("k", latest, 49));
  EXPECT_TRUE(queue.PushLatest("l", latest, 49));
  EXPECT_FALSE(queue.Push("event", 1));
  queue.Clear();
  EXPECT_TRUE(queue.Push("event", 100));
}

TEST(SendQueueTest, StateIsReadWhenItIsItsTurn) {
  SendQueue<std::string> queue(10);
  std::optional<std::string> state = "first";
  const auto latest = [&state] { return state; };
  queue.PushLatest("state", latest);
  state = "second";
  EXPECT_EQ(queue.Pop(), "second");
  queue.PushLatest("state", latest);
  queue.Push("event", 5);
  state.reset();
  EXPECT_EQ(PopAll(queue), "event ");
}

}  // namespace
}  // namespace tfos::control
