#include "net/ucx/ucx_library.h"

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>

namespace tfos::net {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(UcxLibraryTest, AnOldOneIsRefusedByNameAndGone) {
  const std::array<std::string, 1> files = {TFOS_OLD_UCX};
  const auto library = UcxLibrary::LoadFirst(files);
  ASSERT_EQ(library.status().kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(library.status().message(),
              AllOf(HasSubstr(TFOS_OLD_UCX " is UCX 1.13.1, which may abort a process"),
                    HasSubstr("pip install \"libucx-cu12>=1.22\"")));
  EXPECT_EQ(::dlopen(TFOS_OLD_UCX, RTLD_NOW | RTLD_NOLOAD), nullptr);
}

TEST(UcxLibraryTest, ThePackagedOneIsTakenWhereTheSystemsIsTooOld) {
  const std::array<std::string, 2> files = {TFOS_OLD_UCX, TFOS_PACKAGED_UCX};
  const auto library = UcxLibrary::LoadFirst(files);
  ASSERT_TRUE(library.ok()) << library.status().ToString();
  EXPECT_EQ(library->file, TFOS_PACKAGED_UCX);
  EXPECT_NE(library->version, "");
}

TEST(UcxLibraryTest, WithoutAnyTheErrorNamesTheFileAndSaysWhatToInstall) {
  const std::array<std::string, 1> files = {"/nowhere/libucp.so.0"};
  const auto library = UcxLibrary::LoadFirst(files);
  EXPECT_EQ(library.status().kind(), ErrorKind::kUnsupported);
  EXPECT_THAT(library.status().message(), AllOf(HasSubstr("/nowhere/libucp.so.0"),
                                                HasSubstr("pip install \"libucx-cu12>=1.22\"")));
}

TEST(UcxLibraryTest, WhatIsNoUcxIsRefused) {
  const std::array<std::string, 1> files = {"libm.so.6"};
  const auto library = UcxLibrary::LoadFirst(files);
  EXPECT_THAT(library.status().message(), HasSubstr("ucp_get_version"));
}

}  // namespace
}  // namespace tfos::net
