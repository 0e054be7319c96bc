#include "base/profile/unwind/unwinder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/profile/unwind/test_image.h"

namespace tfos {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

constexpr std::uint64_t kCode = kImageAddress + kCodeAt;

/// Frames of 16 bytes, each with a return address at its end.
std::string StackOf(const std::vector<std::uint64_t>& returns) {
  std::string stack;
  for (const std::uint64_t address : returns) stack += Little(0, 8) + Little(address, 8);
  return stack;
}

const std::string kUndefinedReturn = OneByte(0x07) + OneByte(Registers::kProgramCounter);
const std::string kThreeCalls = StackOf({kCode + 16, kCode + 24, 1});

TEST(UnwinderTest, CallersAreWithinTheirCallInstructions) {
  const Calls calls = FollowInImage(TestImage{.own_program = PlainProgram()}.Bytes(), kThreeCalls);
  EXPECT_THAT(calls.addresses, ElementsAre(kCode + 8, kCode + 15, kCode + 23));
  EXPECT_EQ(calls.end, Calls::End::kLost) << "nothing is at 1";
}

TEST(UnwinderTest, AReturnAddressThatIsGoneIsTheBegin) {
  // From the 20th byte on.
  const std::string program = PlainProgram() + OneByte(0x40 + 20) + kUndefinedReturn;
  const Calls calls = FollowInImage(TestImage{.own_program = program}.Bytes(), kThreeCalls);
  EXPECT_THAT(calls.addresses, SizeIs(3));
  EXPECT_EQ(calls.end, Calls::End::kFirst);
}

TEST(UnwinderTest, AReturnAddressOfZeroIsTheBegin) {
  const Calls calls =
      FollowInImage(TestImage{.own_program = PlainProgram()}.Bytes(), StackOf({kCode + 16, 0}));
  EXPECT_THAT(calls.addresses, SizeIs(2));
  EXPECT_EQ(calls.end, Calls::End::kFirst);
}

TEST(UnwinderTest, ProgramsOfAllKinds) {
  const std::string sp = OneByte(Registers::kStackPointer);
  const std::string pc = OneByte(Registers::kProgramCounter);
  const std::vector<std::string> programs = {
      // def_cfa_sf, offset_extended_sf: in units of -8.
      OneByte(0x12) + sp + OneByte(0x7e) + OneByte(0x11) + pc + OneByte(1),
      // def_cfa, def_cfa_register, def_cfa_offset, offset_extended.
      OneByte(0x0c) + OneByte(0) + OneByte(0) + OneByte(0x0d) + sp + OneByte(0x0e) + OneByte(16) +
          OneByte(0x05) + pc + OneByte(1),
      // def_cfa_expression: breg, plus_uconst. expression: from the CFA.
      OneByte(0x0f) + OneByte(4) + OneByte(0x70 + Registers::kStackPointer) + OneByte(0) +
          OneByte(0x23) + OneByte(16) + OneByte(0x10) + pc + OneByte(2) + OneByte(0x38) +
          OneByte(0x1c),
      // val_expression: what is in memory there.
      PlainProgram() + OneByte(0x16) + pc + OneByte(3) + OneByte(0x38) + OneByte(0x1c) +
          OneByte(0x06),
      // remember_state, another rule, restore_state.
      PlainProgram() + OneByte(0x0a) + kUndefinedReturn + OneByte(0x0b),
      // GNU_args_size, advance_loc1, 2 and 4 to what is behind `pc`.
      PlainProgram() + OneByte(0x2e) + OneByte(8) + OneByte(0x02) + OneByte(1) + OneByte(0x03) +
          Little(1, 2) + OneByte(0x04) + Little(200, 4) + kUndefinedReturn,
      // set_loc: relative to its place, behind `pc`.
      PlainProgram() + OneByte(0x01) + Little(0x200, 4) + kUndefinedReturn,
      // Rules of registers that are not followed.
      PlainProgram() + OneByte(0x05) + OneByte(90) + OneByte(1) + OneByte(0x08) + OneByte(91),
  };
  for (std::size_t i = 0; i < programs.size(); ++i) {
    const Calls calls = FollowInImage(TestImage{.own_program = programs[i]}.Bytes(), kThreeCalls);
    EXPECT_THAT(calls.addresses, ElementsAre(kCode + 8, kCode + 15, kCode + 23)) << i;
  }
}

TEST(UnwinderTest, RestoreGoesBackToTheCommonProgram) {
  const std::string back[] = {OneByte(0xc0 + Registers::kProgramCounter % 64),
                              OneByte(0x06) + OneByte(Registers::kProgramCounter)};
  for (const std::string& restore : back) {
    const TestImage image{.common_program = PlainProgram(),
                          .own_program = kUndefinedReturn + restore};
    EXPECT_THAT(FollowInImage(image.Bytes(), kThreeCalls).addresses, SizeIs(3));
  }
}

TEST(UnwinderTest, ProgramsThatMakeNoSenseHaveNoCallers) {
  const std::string programs[] = {
      OneByte(0x3f),                              // No such instruction.
      OneByte(0x0b),                              // restore_state of nothing.
      std::string(100, '\x0a'),                   // Too many states.
      OneByte(0x0f) + OneByte(0),                 // An empty expression.
      OneByte(0x0f) + OneByte(0xff),              // Beyond the end.
      OneByte(0x0c) + OneByte(99) + OneByte(16),  // Of no register.
      PlainProgram() + OneByte(0x09) + OneByte(Registers::kProgramCounter) + OneByte(99),
      PlainProgram() + OneByte(0x0e) + OneByte(0) + OneByte(0x0e) + OneByte(0x7f),
  };
  for (const std::string& program : programs) {
    const Calls calls = FollowInImage(TestImage{.own_program = program}.Bytes(), kThreeCalls);
    EXPECT_THAT(calls.addresses, ElementsAre(kCode + 8));
    EXPECT_EQ(calls.end, Calls::End::kLost);
  }
}

TEST(UnwinderTest, FieldsOfTheCommonPart) {
  const auto calls_with = [](std::string letters, std::string data) {
    return FollowInImage(TestImage{.augmentation = std::move(letters),
                                   .augmentation_data = std::move(data),
                                   .own_program = PlainProgram()}
                             .Bytes(),
                         kThreeCalls)
        .addresses;
  };
  EXPECT_THAT(calls_with("zPLR", "\x9b\x01\x02\x03\x04\x1b\x1b"), SizeIs(3));
  EXPECT_THAT(calls_with("zRB", "\x1b"), SizeIs(3));
  EXPECT_THAT(calls_with("zRS", "\x1b"), ElementsAre(kCode + 8, kCode + 16, kCode + 24))
      << "what a signal interrupts has made no call";
  EXPECT_THAT(calls_with("zR", "\x1b\x01\x02"), SizeIs(3)) << "with data that nobody knows";
  EXPECT_THAT(calls_with("zRX", "\x1b"), SizeIs(1)) << "an unknown letter";
  EXPECT_THAT(calls_with("eh", ""), SizeIs(1));
  EXPECT_THAT(calls_with("zR", "\x9b"), SizeIs(1)) << "a pointer to a pointer";
}

TEST(UnwinderTest, StacksThatGoNowhereEnd) {
  const std::string image = TestImage{.own_program = PlainProgram()}.Bytes();
  EXPECT_THAT(FollowInImage(image, "").addresses, SizeIs(1));
  EXPECT_THAT(FollowInImage(image, std::string_view(kThreeCalls).substr(0, 12)).addresses,
              SizeIs(1));
  const Calls many = FollowInImage(image, StackOf(std::vector<std::uint64_t>(1000, kCode + 9)));
  EXPECT_THAT(many.addresses, SizeIs(Unwinder::kMostCalls));
  EXPECT_EQ(many.end, Calls::End::kMore);
  // The frame's address is the stack pointer itself, and so on for ever.
  const std::string still = OneByte(0x0c) + OneByte(Registers::kStackPointer) + OneByte(0) +
                            OneByte(0x11) + OneByte(Registers::kProgramCounter) + OneByte(0x7f);
  EXPECT_THAT(
      FollowInImage(TestImage{.own_program = still}.Bytes(), StackOf({kCode, kCode + 8})).addresses,
      SizeIs(testing::Le(3)));
}

TEST(UnwinderTest, NoBitOfAFileIsTrusted) {
  const std::string image =
      TestImage{.common_program = PlainProgram(),
                .own_program = OneByte(0x16) + OneByte(Registers::kProgramCounter) + OneByte(3) +
                               OneByte(0x38) + OneByte(0x1c) + OneByte(0x06)}
          .Bytes();
  ASSERT_THAT(FollowInImage(image, kThreeCalls).addresses, SizeIs(3));
  for (std::size_t bit = 0; bit < 8 * kCodeAt; ++bit) {
    std::string flipped = image;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    const Calls calls = FollowInImage(flipped, kThreeCalls);
    ASSERT_LE(calls.addresses.size(), Unwinder::kMostCalls);
  }
  for (std::size_t size = 0; size < image.size(); ++size) {
    FollowInImage(image.substr(0, size), kThreeCalls);
  }
}

}  // namespace
}  // namespace tfos
