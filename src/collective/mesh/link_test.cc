#include "collective/mesh/link.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collective/mesh/test_stream.h"

namespace tfos::collective {
namespace {

constexpr std::size_t kElements = 24;
constexpr std::size_t kBytes = kElements * sizeof(float);

Operation Sum() {
  return {.number = 7,
          .kind = OperationKind::kAllReduce,
          .dtype = DType::kFloat32,
          .elements = kElements,
          .name = "sum"};
}

/// It has begun the operations 0 to 2.
const std::string kLeftBody("\3\0\0\0\0\0\0\0", 8);

void Append(std::uint32_t type, const std::string& body, std::string& to) {
  constexpr std::uint32_t kData = 2;
  constexpr std::size_t kLine = 64;
  const std::uint32_t head[2] = {type, static_cast<std::uint32_t>(body.size())};
  to.append(reinterpret_cast<const char*>(head), sizeof(head));
  to.append(kLine - sizeof(head), '\0');
  to += body;
  if (type != kData) to.append((kLine - body.size() % kLine) % kLine, '\0');
}

/// A peer's part of an all-reduce, with all kinds of frames.
std::string Conversation() {
  std::string said;
  Append(1, Sum().Encode(), said);
  std::string waiting(12, '\0');
  waiting[0] = 7;
  waiting[8] = 2;
  Append(4, waiting, said);
  Append(2, std::string(40, '\1'), said);
  Append(2, std::string(kBytes - 40, '\1'), said);
  Append(5, kLeftBody, said);
  Append(3, "enough", said);
  return said;
}

/// How it ends for the other side. Whether the end comes while elements are received depends on how
/// much is there at a time, but not which end it is.
std::string Hear(const std::string& said, std::size_t at_a_time, std::optional<DType> add) {
  std::vector<std::byte> room(kBytes);
  Link link(std::make_unique<RecordedStream>(std::as_bytes(std::span(said)), at_a_time),
            "worker:1");
  link.Begin(Sum());
  link.Receive(room, add);
  Status status = link.Pull();
  if (status.ok()) {
    // Nothing blocks, so it has all.
    EXPECT_FALSE(link.receiving());
    status = link.Peek(8).status();
  }
  return status.ok() ? "left" : status.ToString();
}

TEST(LinkTest, HearsTheSameHoweverTheStreamIsCut) {
  const std::string said = Conversation();
  for (const std::optional<DType> add : {std::optional<DType>(), std::optional(DType::kFloat32)}) {
    const std::string heard = Hear(said, said.size(), add);
    EXPECT_EQ(heard, "worker:1 gave up: enough");
    for (std::size_t at_a_time = 1; at_a_time < said.size(); ++at_a_time) {
      EXPECT_EQ(Hear(said, at_a_time, add), heard) << at_a_time;
    }
  }
}

TEST(LinkTest, ReceivesWhatIsSent) {
  std::string said;
  Append(1, Sum().Encode(), said);
  Append(2, std::string(kBytes, '\1'), said);
  for (std::size_t at_a_time = 1; at_a_time <= said.size(); ++at_a_time) {
    std::vector<std::byte> room(kBytes);
    Link link(std::make_unique<RecordedStream>(std::as_bytes(std::span(said)), at_a_time), "peer");
    link.Begin(Sum());
    link.Receive(room, {});
    ASSERT_TRUE(link.Pull().ok());
    EXPECT_EQ(room, std::vector<std::byte>(kBytes, std::byte{1})) << at_a_time;
  }
}

TEST(LinkTest, ReceivesMuchHoweverTheStreamIsCut) {
  // Enough to be received where it belongs, behind headers that are received alone.
  constexpr std::size_t kFrame = std::size_t{40} << 10;
  std::string waiting(12, '\0');
  waiting[0] = 7;
  waiting[8] = 2;
  std::string said;
  Append(1, Sum().Encode(), said);
  Append(2, std::string(kFrame, '\1'), said);
  Append(4, waiting, said);
  Append(2, std::string(kFrame, '\2'), said);
  std::vector<std::byte> expected(kFrame, std::byte{1});
  expected.resize(2 * kFrame, std::byte{2});
  for (const std::size_t at_a_time : {std::size_t{1}, std::size_t{7}, std::size_t{63},
                                      std::size_t{64}, std::size_t{65}, kFrame, said.size()}) {
    std::vector<std::byte> room(2 * kFrame);
    Link link(std::make_unique<RecordedStream>(std::as_bytes(std::span(said)), at_a_time), "peer");
    link.Begin(Sum());
    link.Receive(room, {});
    ASSERT_TRUE(link.Pull().ok()) << at_a_time;
    EXPECT_FALSE(link.receiving());
    EXPECT_EQ(room, expected) << at_a_time;
    EXPECT_EQ(link.waits_for(), 2U);
  }
}

TEST(LinkTest, AnOperationAmongElementsIsAnError) {
  std::string said;
  Append(1, Sum().Encode(), said);
  Append(2, std::string(40, '\1'), said);
  Append(1, Sum().Encode(), said);
  EXPECT_EQ(Hear(said, said.size(), {}).find("worker:1 began another operation before"), 0U);
}

/// A peer that says `received`, and takes nothing.
class DeafStream final : public net::Stream {
 public:
  explicit DeafStream(const std::string& received)
      : Stream(UniqueFd()), words_(std::as_bytes(std::span(received)), received.size()) {}

  std::string Describe() const override { return "deaf"; }
  Result<net::Transfer> Send(std::span<const std::byte> /*first*/,
                             std::span<const std::byte> /*second*/) override {
    return Status(ErrorKind::kReconnect, "reset");
  }
  Result<net::Transfer> Receive(std::span<std::byte> space) override {
    return words_.Receive(space);
  }

 private:
  RecordedStream words_;
};

TEST(LinkTest, APeerThatHasLeftAndIsGoneHasHeardThatThisOneLeft) {
  std::string said;
  Append(5, kLeftBody, said);
  Link link(std::make_unique<DeafStream>(said), "worker:1");
  link.TellLeft(1);
  EXPECT_EQ(link.Push().ToString(), Status().ToString());
  EXPECT_TRUE(link.left());
  EXPECT_EQ(link.begun(), 3U);
  EXPECT_TRUE(link.ended());
  EXPECT_FALSE(link.sending());
  EXPECT_TRUE(link.Peek(1).ok());
}

TEST(LinkTest, APeerThatIsGoneAndHasNotLeftIsAnError) {
  Link link(std::make_unique<DeafStream>(""), "worker:1");
  link.TellLeft(1);
  EXPECT_EQ(link.Push().ToString().find("worker:1 closed its connection"), 0U);
}

TEST(LinkTest, WhoLeavesSaysWhatItHasBegun) {
  std::string said;
  Append(5, {}, said);
  Link link(std::make_unique<DeafStream>(said), "worker:1");
  EXPECT_EQ(link.Peek(1).status().ToString(), "worker:1 sent a bad frame");
}

TEST(LinkTest, AnEndAnywhereIsAnEnd) {
  const std::string said = Conversation();
  for (std::size_t bytes = 0; bytes < said.size(); ++bytes) {
    const std::string heard = Hear(said.substr(0, bytes), said.size(), {});
    EXPECT_TRUE(heard.ends_with("worker:1 closed its connection") || heard.ends_with("left"))
        << bytes << ": " << heard;
  }
}

/// Whatever one wrong bit is taken for, it does no harm: an error, or elements as many as there
/// are.
TEST(LinkTest, AnyBitMayBeWrong) {
  const std::string said = Conversation();
  for (std::size_t bit = 0; bit < said.size() * 8; ++bit) {
    std::string wrong = said;
    wrong[bit / 8] = static_cast<char>(wrong[bit / 8] ^ (1 << bit % 8));
    for (const std::optional<DType> add :
         {std::optional<DType>(), std::optional(DType::kFloat32)}) {
      const std::string heard = Hear(wrong, wrong.size(), add);
      EXPECT_EQ(Hear(wrong, 3, add), heard) << bit;
      EXPECT_FALSE(heard.empty());
    }
  }
}

/// A stream beside its socket that was given space, and puts something there when it likes.
class LateStream final : public net::Stream {
 public:
  explicit LateStream(UniqueFd socket) : Stream(UniqueFd()) {
    Adopt(std::make_unique<net::SocketStream>(std::move(socket)));
  }

  bool beside_socket() const override { return true; }
  std::string Describe() const override { return "late"; }
  Result<net::Transfer> Send(std::span<const std::byte> /*first*/,
                             std::span<const std::byte> /*second*/) override {
    return net::Transfer{.blocked = true};
  }
  Result<net::Transfer> Receive(std::span<std::byte> space) override {
    std::ranges::fill(space, std::byte{0xee});
    given = space;
    return net::Transfer{.blocked = true};
  }

  std::span<std::byte> given;
};

TEST(LinkTest, LastWordsGoNowhereThatTheStreamMayStillWriteTo) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
  auto made = std::make_unique<LateStream>(UniqueFd(ends[0]));
  LateStream& stream = *made;
  Link link(std::move(made), "worker:1");
  std::vector<std::byte> room(kBytes);
  link.Begin(Sum());
  link.Receive(room, DType::kFloat32);
  ASSERT_TRUE(link.Pull().ok());
  ASSERT_FALSE(stream.given.empty());
  {
    const UniqueFd peer(ends[1]);
    std::string words;
    Append(3, "enough", words);
    ASSERT_EQ(::send(peer.get(), words.data(), words.size(), 0),
              static_cast<ssize_t>(words.size()));
  }
  EXPECT_EQ(link.OnHangUp().ToString(), "worker:1 gave up: enough");
  EXPECT_TRUE(
      std::ranges::all_of(stream.given, [](std::byte byte) { return byte == std::byte{0xee}; }));
  std::ranges::fill(stream.given, std::byte{1});  // Which is still there: AddressSanitizer looks.
}

}  // namespace
}  // namespace tfos::collective
