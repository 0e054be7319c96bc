#include "base/text/choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfos {
namespace {

using testing::HasSubstr;

enum class Fruit { kNone, kApple, kPear };

constexpr Choice<Fruit> kFruits[] = {
    {"", Fruit::kNone}, {"apple", Fruit::kApple}, {"Pear", Fruit::kPear}};

TEST(Choice, AWordStandsForItsValue) {
  EXPECT_EQ(ChoiceNamed("fruit", kFruits, "apple").value(), Fruit::kApple);
  EXPECT_EQ(ChoiceNamed("fruit", kFruits, "").value(), Fruit::kNone);
  EXPECT_EQ(ChoiceName(kFruits, Fruit::kPear), "Pear");
  EXPECT_EQ(ChoiceName(kFruits, static_cast<Fruit>(7)), "");
}

TEST(Choice, LettersCountUnlessTheyAreIgnored) {
  EXPECT_EQ(ChoiceNamed("fruit", kFruits, "PEAR", LetterCase::kIgnored).value(), Fruit::kPear);
  EXPECT_EQ(ChoiceNamed("fruit", kFruits, "PEAR").status().kind(), ErrorKind::kBadInput);
  EXPECT_EQ(ChoiceNamed("fruit", kFruits, "APPLES", LetterCase::kIgnored).status().kind(),
            ErrorKind::kBadInput);
  EXPECT_EQ(LowerCase("aZ09-\xc3\x84"), "az09-\xc3\x84") << "no letters but those of ASCII";
}

TEST(Choice, TheMessageSaysWhatItMustBe) {
  const Status status = ChoiceNamed("the fruit", kFruits, "plum").status();
  EXPECT_EQ(status.kind(), ErrorKind::kBadInput);
  EXPECT_THAT(status.message(), HasSubstr("the fruit must be '', apple or Pear, not 'plum'"));
  constexpr std::string_view kOne[] = {"apple"};
  EXPECT_THAT(NotAChoice("it", kOne, "x").message(), HasSubstr("it must be apple, not 'x'"));
}

}  // namespace
}  // namespace tfos
