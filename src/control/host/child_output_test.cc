#include "control/host/child_output.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <cerrno>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tfos::control {
namespace {

class ChildOutputTest : public ::testing::Test {
 protected:
  Status Start(const std::string& program) {
    return child_.Start({.argv = {"/bin/sh", "-c", program}});
  }

  boost::asio::io_context io_;
  std::string output_;
  std::vector<ExitStatus> ends_;
  std::string next_;  ///< To be run when one has ended.
  ChildOutput child_{io_.get_executor(), [this](std::string_view bytes) { output_ += bytes; },
                     [this](const ExitStatus& exit) {
                       EXPECT_EQ(child_.pid(), 0) << "it was reaped";
                       ends_.push_back(exit);
                       if (!next_.empty()) {
                         EXPECT_TRUE(Start(std::exchange(next_, "")).ok());
                       }
                     }};
};

TEST_F(ChildOutputTest, AllOutputComesBeforeTheEnd) {
  ASSERT_TRUE(Start("echo out; echo err >&2; exit 3").ok());
  EXPECT_GT(child_.pid(), 0);
  io_.run();
  EXPECT_EQ(output_, "out\nerr\n");
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_EQ(ends_[0].code, 3);
}

TEST_F(ChildOutputTest, WhatItLeavesBehindDelaysNothing) {
  // The one that it has started holds the output open, and is killed with its group.
  ASSERT_TRUE(Start("sleep 600 & echo left").ok());
  io_.run();
  EXPECT_EQ(output_, "left\n");
  EXPECT_EQ(ends_.size(), 1u);
}

TEST_F(ChildOutputTest, OneThatIsKilledSaysSo) {
  ASSERT_TRUE(Start("sleep 600").ok());
  child_.Kill();
  io_.run();
  ASSERT_EQ(ends_.size(), 1u);
  EXPECT_TRUE(ends_[0].signalled);
  child_.Kill();
}

TEST_F(ChildOutputTest, TheNextOneMayBeStartedAtTheEnd) {
  next_ = "echo second; exit 2";
  ASSERT_TRUE(Start("echo first; exit 1").ok());
  io_.run();
  EXPECT_EQ(output_, "first\nsecond\n");
  ASSERT_EQ(ends_.size(), 2u);
  EXPECT_EQ(ends_[0].code, 1);
  EXPECT_EQ(ends_[1].code, 2);
}

TEST_F(ChildOutputTest, WhatCantBeStartedCanBeTriedAgain) {
  EXPECT_EQ(child_.Start({.argv = {"/nowhere/tfos"}}).code().value(), ENOENT);
  EXPECT_EQ(child_.pid(), 0);
  ASSERT_TRUE(Start("echo again").ok());
  io_.run();
  EXPECT_EQ(output_, "again\n");
}

}  // namespace
}  // namespace tfos::control
