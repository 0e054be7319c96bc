#include "parameter_server/client.h"

#include <gtest/gtest.h>

namespace tfos::parameter_server {
namespace {

TEST(ClientTest, WhatIsPushedHasNames) {
  EXPECT_EQ(PushedFrom("values").value(), Pushed::kValues);
  EXPECT_EQ(PushedFrom("change").value(), Pushed::kChange);
  EXPECT_EQ(PushedFrom("gradients").value(), Pushed::kGradients);
  const Status other = PushedFrom("changes").status();
  EXPECT_EQ(other.kind(), ErrorKind::kBadInput);
  EXPECT_EQ(other.message(), "what is pushed must be values, change or gradients, not 'changes'");
}

TEST(ClientTest, NobodyConnectsToNoServers) {
  EXPECT_EQ(Client::Connect({}).status().kind(), ErrorKind::kBadInput);
}

}  // namespace
}  // namespace tfos::parameter_server
