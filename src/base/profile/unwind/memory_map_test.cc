#include "base/profile/unwind/memory_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <string_view>

namespace tfos {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(MemoryMapTest, Lines) {
  const auto map = ParseMemoryMap(
      "55d0c0-55d0f0 r-xp 00002000 fe:00 1234 /usr/lib/a file (deleted)\n"
      "nonsense\n"
      "7f0000000000-7f0000021000 rw-p 00000000 00:00 0\n"
      "7ffd00000000-7ffd00001000 r-xp 00000000 00:00 0                          [vdso]");
  ASSERT_THAT(map, SizeIs(3));
  EXPECT_EQ(map[0].begin, 0x55d0c0u);
  EXPECT_EQ(map[0].end, 0x55d0f0u);
  EXPECT_TRUE(map[0].is_code);
  EXPECT_EQ(map[0].offset, 0x2000u);
  EXPECT_EQ(map[0].path, "/usr/lib/a file (deleted)");
  EXPECT_FALSE(map[1].is_code);
  EXPECT_EQ(map[1].path, "");
  EXPECT_EQ(map[2].path, "[vdso]");

  EXPECT_EQ(FindMapping(map, 0x55d0bf), nullptr);
  EXPECT_EQ(FindMapping(map, 0x55d0c0), &map[0]);
  EXPECT_EQ(FindMapping(map, 0x55d0f0), nullptr);
  EXPECT_EQ(FindMapping(map, 0x7ffd00000fff), &map[2]);
  EXPECT_EQ(FindMapping({}, 0), nullptr);
}

TEST(MemoryMapTest, OfThisProcess) {
  const auto map = ReadMemoryMap(::getpid());
  const auto here = reinterpret_cast<std::uintptr_t>(&map);
  ASSERT_NE(FindMapping(map, here), nullptr);
  EXPECT_THAT(ReadMemoryMap(0x7fffffff), IsEmpty());
}

TEST(MemoryMapTest, MemoryIsReadAsFarAsItGoes) {
  const std::array<char, 4> text = {'t', 'e', 'x', 't'};
  std::array<std::byte, 4> copy{};
  const MemoryOfProcess memory(::getpid());
  EXPECT_TRUE(memory.Read(reinterpret_cast<std::uintptr_t>(text.data()), copy));
  EXPECT_EQ(copy[3], std::byte{'t'});
  EXPECT_FALSE(memory.Read(8, copy));
  EXPECT_EQ(memory.ReadSome(8, copy), 0u);
}

}  // namespace
}  // namespace tfos
