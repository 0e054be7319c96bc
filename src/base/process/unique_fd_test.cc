#include "base/process/unique_fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace tfos {
namespace {

bool IsOpen(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }

TEST(UniqueFdTest, ClosesOnDestruction) {
  int raw = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  { UniqueFd fd(raw); }
  EXPECT_FALSE(IsOpen(raw));
}

TEST(UniqueFdTest, MoveTransfersOwnership) {
  UniqueFd first(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int raw = first.get();
  UniqueFd second = std::move(first);
  EXPECT_EQ(second.get(), raw);
  EXPECT_TRUE(IsOpen(raw));
  second.Reset();
  EXPECT_FALSE(IsOpen(raw));
}

TEST(UniqueFdTest, ReleaseLeavesItOpen) {
  UniqueFd fd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  int raw = fd.Release();
  EXPECT_FALSE(fd.valid());
  EXPECT_TRUE(IsOpen(raw));
  ::close(raw);
}

}  // namespace
}  // namespace tfos
