#ifndef TFOS_CONTROL_MESSAGES_MESSAGE_TEST_SUITE_H_
#define TFOS_CONTROL_MESSAGES_MESSAGE_TEST_SUITE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "control/messages/parts/message_text.h"

// What the messages of every link are tested for. A test of a link includes this, specialises
// Examples for its variants, and instantiates MessagesTest for them.
namespace tfos::control {

using nlohmann::json;
using testing::HasSubstr;

inline constexpr const char* kToken =
    "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
inline constexpr const char* kNode =
    R"({"node_id":0,"job_name":"worker","task_index":0,"rank":0,"state":"running","detail":"text","leaving":"",)"
    R"("since_ms":12,"host":"h","address":"10.0.0.6","port":2222,"tensor_port":2223,"pid":1,"agent_pid":2,)"
    R"("executor_id":"0","gpus":["0"],"feed":{"socket":"tfos-s","port":40000},)"
    R"("tensorboard":{"pid":3,"port":6006},"joins":true})";
inline constexpr const char* kFailure =
    R"({"node_id":0,"job_name":"worker","task_index":0,"host":"h","executor_id":"0",)"
    R"("step":"run map_fun","message":"ValueError: x","traceback":"t","log_tail":["a","b"],"lost":false})";
inline constexpr const char* kReport =
    R"({"step":"run map_fun","message":"ValueError: x","traceback":"t","log_tail":["a"],"lost":true})";

inline std::string Fill(std::string text) {
  for (const auto& [mark, value] : std::vector<std::pair<std::string, std::string>>{
           {"TOKEN", kToken}, {"NODE", kNode}, {"FAILURE", kFailure}, {"REPORT", kReport}}) {
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark)) {
      text.replace(at, mark.size(), value);
    }
  }
  return text;
}

/// One example of each message of a direction; what is written in capitals `Fill` replaces.
template <typename Message>
std::vector<std::string> Examples();

template <typename Message>
std::string Reserialized(const Message& message) {
  return std::visit(
      [](const auto& alternative) {
        using Alternative = std::decay_t<decltype(alternative)>;
        if constexpr (std::is_same_v<Alternative, UnknownMessage>) {
          return std::string("unknown");
        } else {
          return SerializeMessage(alternative);
        }
      },
      message);
}

template <typename Message>
class MessagesTest : public testing::Test {};

TYPED_TEST_SUITE_P(MessagesTest);

TYPED_TEST_P(MessagesTest, EveryTypeHasAnExample) {
  // One alternative is UnknownMessage.
  EXPECT_EQ(Examples<TypeParam>().size(), std::variant_size_v<TypeParam> - 1);
}

TYPED_TEST_P(MessagesTest, ReadingAndWritingKeepsEveryField) {
  for (const std::string& example : Examples<TypeParam>()) {
    const std::string text = Fill(example);
    const auto message = ParseMessage<TypeParam>(text);
    ASSERT_TRUE(message.ok()) << text << ": " << message.status().ToString();
    EXPECT_EQ(json::parse(Reserialized(*message)), json::parse(text));
  }
}

TYPED_TEST_P(MessagesTest, FieldsThatAreMissingOrMistypedAreNamed) {
  for (const std::string& example : Examples<TypeParam>()) {
    const json whole = json::parse(Fill(example));
    for (const auto& [name, value] : whole.items()) {
      json mistyped = whole;
      mistyped[name] = json::array({json::array()});
      const auto result = ParseMessage<TypeParam>(mistyped.dump());
      ASSERT_FALSE(result.ok()) << mistyped.dump();
      EXPECT_EQ(result.status().kind(), ErrorKind::kBadInput);
      EXPECT_THAT(result.status().ToString(), HasSubstr("'" + name + "'"));

      json missing = whole;
      missing.erase(name);
      if (auto without = ParseMessage<TypeParam>(missing.dump()); !without.ok()) {
        EXPECT_THAT(without.status().ToString(), HasSubstr("'" + name + "'"));
      }
    }
  }
}

TYPED_TEST_P(MessagesTest, UnknownFieldsAreIgnored) {
  for (const std::string& example : Examples<TypeParam>()) {
    json extended = json::parse(Fill(example));
    extended["of a newer version"] = json::array({1, 2});
    EXPECT_TRUE(ParseMessage<TypeParam>(extended.dump()).ok());
  }
}

TYPED_TEST_P(MessagesTest, UnknownTypesAreTold) {
  const auto message = ParseMessage<TypeParam>(R"({"type":"of a newer version","x":1})");
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(std::get<UnknownMessage>(*message).type, "of a newer version");
}

TYPED_TEST_P(MessagesTest, FlippedBitsNeverCrashAndWhatIsTakenCanBeWritten) {
  for (const std::string& example : Examples<TypeParam>()) {
    const std::string text = Fill(example);
    for (std::size_t bit = 0; bit < text.size() * 8; ++bit) {
      std::string flipped = text;
      flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
      if (auto message = ParseMessage<TypeParam>(flipped); message.ok()) {
        EXPECT_FALSE(Reserialized(*message).empty());
      }
    }
    for (std::size_t length = 0; length < text.size(); ++length) {
      EXPECT_FALSE(ParseMessage<TypeParam>(std::string_view(text).substr(0, length)).ok());
    }
  }
}

REGISTER_TYPED_TEST_SUITE_P(MessagesTest, EveryTypeHasAnExample, ReadingAndWritingKeepsEveryField,
                            FieldsThatAreMissingOrMistypedAreNamed, UnknownFieldsAreIgnored,
                            UnknownTypesAreTold, FlippedBitsNeverCrashAndWhatIsTakenCanBeWritten);

}  // namespace tfos::control

#endif  // TFOS_CONTROL_MESSAGES_MESSAGE_TEST_SUITE_H_
