#include "base/memory/private_pages.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/process/unique_fd.h"

namespace tfos {
namespace {

class PrivatePagesTest : public ::testing::TestWithParam<Status (*)(std::span<std::byte>)> {};

TEST_P(PrivatePagesTest, StayWhatTheyAreWhateverIsWrittenToTheFile) {
  const auto page_bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<std::byte> before(5 * page_bytes);
  for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<std::byte>(1 + i % 251);
  const std::vector<std::byte> after(before.size(), std::byte{0});
  const UniqueFd file(::memfd_create("pages", MFD_CLOEXEC));
  const auto write = [&](const std::vector<std::byte>& bytes) {
    ASSERT_EQ(::pwrite(file.get(), bytes.data(), bytes.size(), 0),
              static_cast<ssize_t>(bytes.size()));
  };
  write(before);
  void* const address =
      ::mmap(nullptr, before.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, file.get(), 0);
  ASSERT_NE(address, MAP_FAILED);
  const std::span mapped(static_cast<std::byte*>(address), before.size());
  const std::span others = mapped.first(page_bytes);
  const std::span copied = mapped.subspan(page_bytes);
  ASSERT_TRUE(GetParam()(copied).ok());
  EXPECT_TRUE(std::ranges::equal(mapped, before));
  write(after);
  EXPECT_TRUE(std::ranges::equal(copied, std::span(before).subspan(page_bytes)));
  EXPECT_TRUE(std::ranges::equal(others, std::span(after).first(page_bytes)))
      << "nobody asked for a copy of these";
  ::munmap(address, before.size());
}

INSTANTIATE_TEST_SUITE_P(Ways, PrivatePagesTest,
                         ::testing::Values(&CopyPrivatePages, &CopyPrivatePagesByWriting),
                         [](const auto& test) {
                           return test.param == &CopyPrivatePages ? "BestWay" : "ByWriting";
                         });

}  // namespace
}  // namespace tfos
