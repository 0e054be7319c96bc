#include "tfos/status.h"

#include <gtest/gtest.h>

#include <cerrno>

namespace tfos {
namespace {

TEST(StatusTest, DefaultIsOk) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status::Ok().ToString(), "ok");
}

TEST(StatusTest, AnnotateKeepsKindAndRootCode) {
  Status root = Status::FromErrno(ECONNREFUSED, "connect to 10.0.0.1:7");
  Status outer = root.Annotate("register node 3");
  EXPECT_EQ(outer.kind(), ErrorKind::kReconnect);
  EXPECT_EQ(outer.code().value(), ECONNREFUSED);
  EXPECT_EQ(outer.ToString(), "register node 3: connect to 10.0.0.1:7: Connection refused");
  ASSERT_NE(outer.cause(), nullptr);
  EXPECT_EQ(outer.cause()->message(), root.message());
}

TEST(StatusTest, AnnotateOfOkIsOk) { EXPECT_TRUE(Status().Annotate("anything").ok()); }

TEST(StatusTest, DebugStringNamesTheSourceFile) {
  Status status(ErrorKind::kBug, "broken");
  EXPECT_NE(status.DebugString().find("status_test.cc"), std::string::npos);
  EXPECT_NE(status.DebugString().find("[bug]"), std::string::npos);
}

Result<int> Half(int n) {
  if (n % 2 != 0) return Status(ErrorKind::kBadInput, "odd");
  return n / 2;
}

Result<int> Quarter(int n) {
  TFOS_ASSIGN_OR_RETURN(int half, Half(n));
  return Half(half);
}

TEST(ResultTest, ValueOrFirstFailure) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status().message(), "odd");
}

TEST(ResultTest, OkStatusWithoutValueIsABug) {
  Result<int> result{Status::Ok()};
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(result.status().kind(), ErrorKind::kBug);
}

}  // namespace
}  // namespace tfos
