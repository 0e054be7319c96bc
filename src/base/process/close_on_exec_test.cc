#include "base/process/close_on_exec.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <vector>

#include "base/process/unique_fd.h"

namespace tfos {
namespace {

bool IsMarked(const UniqueFd& fd) { return (::fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0; }

class CloseOnExecTest : public ::testing::TestWithParam<bool (*)(int)> {};

TEST_P(CloseOnExecTest, MarksAllFromTheFirstOn) {
  // More than one read of the directory lists.
  std::vector<UniqueFd> open;
  for (int i = 0; i < 300; ++i) open.emplace_back(::open("/dev/null", O_RDONLY));
  ASSERT_TRUE(open.back().valid());
  const int first = open[5].get();
  ASSERT_TRUE(GetParam()(first));
  for (const UniqueFd& fd : open) EXPECT_EQ(IsMarked(fd), fd.get() >= first) << fd.get();
}

INSTANTIATE_TEST_SUITE_P(Ways, CloseOnExecTest,
                         ::testing::Values(&MarkCloseOnExec, &MarkListedCloseOnExec));

}  // namespace
}  // namespace tfos
