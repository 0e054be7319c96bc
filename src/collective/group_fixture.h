#ifndef TFOS_COLLECTIVE_GROUP_FIXTURE_H_
#define TFOS_COLLECTIVE_GROUP_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collective/group.h"
#include "collective/test_members.h"

// One suite for all ways in which members exchange tensors.
namespace tfos::collective {

template <typename T>
std::span<std::byte> Bytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

/// Every transport keeps the same promises.
class TransportTest : public ::testing::TestWithParam<Transport> {
 protected:
  static std::vector<GroupOptions> Make(std::uint32_t members) {
    return MakeMembers(members, GetParam());
  }

  /// What each member is told when one of them, `odd`, runs another program.
  static std::vector<std::string> Told(std::uint32_t members, std::uint32_t odd,
                                       const std::function<Status(Group&)>& program,
                                       const std::function<Status(Group&)>& odd_program) {
    std::vector<std::string> told(members);
    RunMembers(Make(members), [&](Group& group) {
      const Status status = group.rank() == odd ? odd_program(group) : program(group);
      told[group.rank()] = status.ToString();
      // Whatever follows fails with the same.
      EXPECT_EQ(group.Barrier("after").ToString(), status.ToString());
    });
    return told;
  }
};

INSTANTIATE_TEST_SUITE_P(All, TransportTest, ::testing::ValuesIn(Transports()),
                         [](const auto& instance) { return NameOf(instance.param); });

}  // namespace tfos::collective

#endif  // TFOS_COLLECTIVE_GROUP_FIXTURE_H_
