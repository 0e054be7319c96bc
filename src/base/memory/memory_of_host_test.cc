#include "base/memory/memory_of_host.h"

#include <gtest/gtest.h>
#include <sys/sysinfo.h>

namespace tfos {
namespace {

TEST(MemoryOfHostTest, IsSomethingAndNotMoreThanTheMachineHas) {
  struct sysinfo machine {};
  ASSERT_EQ(::sysinfo(&machine), 0);
  EXPECT_GT(MemoryOfHost(), std::uint64_t{1} << 20);
  EXPECT_LE(MemoryOfHost(), std::uint64_t{machine.totalram} * machine.mem_unit);
}

}  // namespace
}  // namespace tfos
