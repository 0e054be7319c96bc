#include "base/thread/guarded.h"

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace tfos {
namespace {

using Failure = std::pair<ErrorKind, std::string>;

std::optional<Failure> FailureOf(const std::function<void()>& work) {
  std::optional<Failure> failure;
  Guarded(work, [&](ErrorKind kind, const char* what) { failure.emplace(kind, what); });
  return failure;
}

TEST(GuardedTest, WorkThatReturnsDoesNotFail) {
  bool ran = false;
  EXPECT_EQ(FailureOf([&] { ran = true; }), std::nullopt);
  EXPECT_TRUE(ran);
}

TEST(GuardedTest, NoMemoryAndNoThreadAreNoResources) {
  EXPECT_EQ(FailureOf([] { throw std::bad_alloc(); }),
            Failure(ErrorKind::kNoResources, "no memory"));
  const auto failure = FailureOf([] {
    throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
  });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->first, ErrorKind::kNoResources);
}

TEST(GuardedTest, OtherExceptionsAreBugsWithTheirText) {
  EXPECT_EQ(FailureOf([] { throw std::runtime_error("odd"); }), Failure(ErrorKind::kBug, "odd"));
  const auto access = FailureOf([] {
    const std::variant<int, std::string> number = 1;
    static_cast<void>(std::get<std::string>(number));
  });
  ASSERT_TRUE(access);
  EXPECT_EQ(access->first, ErrorKind::kBug);
  EXPECT_NE(access->second, "no memory");
  EXPECT_EQ(FailureOf([] { throw 1; }), Failure(ErrorKind::kBug, "an exception of unknown type"));
}

}  // namespace
}  // namespace tfos
