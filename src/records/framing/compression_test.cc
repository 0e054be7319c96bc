#include "records/framing/compression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "records/framing/test_records.h"

namespace tfos::records {
namespace {

using testing::HasSubstr;

std::string Compressed(std::string_view text, Compression compression, int level = -1) {
  std::string file;
  auto sink = Compress(std::make_unique<MemorySink>("memory", file), compression, level);
  EXPECT_TRUE(sink.ok());
  EXPECT_TRUE((*sink)->Write(Bytes(text)).ok());
  EXPECT_TRUE((*sink)->Close().ok());
  return file;
}

Result<std::string> Decompressed(std::string_view file, Compression compression,
                                 std::size_t at_once = 1'000'000) {
  TFOS_ASSIGN_OR_RETURN(auto source,
                        Decompress(std::make_unique<TrickleSource>(file, at_once), compression));
  std::string text;
  std::byte room[1'000];
  while (true) {
    TFOS_ASSIGN_OR_RETURN(const std::size_t read, source->Read(room));
    if (read == 0) return text;
    text += Text(std::span(room).first(read));
  }
}

std::string Sample(std::size_t bytes) {
  std::mt19937 random(5);
  std::string text(bytes, 0);
  for (char& letter : text) letter = static_cast<char>('a' + random() % 5);
  return text;
}

TEST(CompressionTest, GivesBackWhatWasWritten) {
  for (const std::size_t bytes : {0U, 1U, 1'000U, 1'000'000U}) {
    const std::string text = Sample(bytes);
    for (const auto compression : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
      for (const int level : {-1, 0, 9}) {
        const std::string file = Compressed(text, compression, level);
        EXPECT_EQ(Decompressed(file, compression).value(), text);
        EXPECT_EQ(Decompressed(file, compression, 777).value(), text);
      }
    }
  }
}

TEST(CompressionTest, ReadsSeveralMembersOfGzipAsOne) {
  const std::string file = Compressed("one, ", Compression::kGzip) +
                           Compressed("", Compression::kGzip) +
                           Compressed("two", Compression::kGzip);
  EXPECT_EQ(Decompressed(file, Compression::kGzip).value(), "one, two");
  EXPECT_EQ(Decompressed(file, Compression::kGzip, 1).value(), "one, two");
}

TEST(CompressionTest, RefusesWhatIsBehindTheEnd) {
  const auto zlib = Compressed("one", Compression::kZlib) + Compressed("two", Compression::kZlib);
  EXPECT_THAT(Decompressed(zlib, Compression::kZlib).status().message(),
              HasSubstr("behind its end"));
  const auto gzip = Compressed("one", Compression::kGzip) + "trailing";
  EXPECT_FALSE(Decompressed(gzip, Compression::kGzip).ok());
}

TEST(CompressionTest, SaysWhenAFileIsNotCompressed) {
  const auto read = Decompressed(FileOf({"hello"}), Compression::kGzip);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(read.status().message(), HasSubstr("not valid GZIP data"));
  EXPECT_THAT(read.status().message(), HasSubstr("if the file is not compressed, say so"));
}

TEST(CompressionTest, NoticesEveryTruncationAndFlippedBit) {
  const std::string text = Sample(300);
  for (const auto compression : {Compression::kGzip, Compression::kZlib}) {
    std::string file = Compressed(text, compression);
    for (std::size_t length = 1; length < file.size(); ++length) {
      EXPECT_FALSE(Decompressed(file.substr(0, length), compression).ok()) << length;
    }
    for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
      file[bit / 8] ^= static_cast<char>(1 << (bit % 8));
      const auto read = Decompressed(file, compression);
      // ZLIB's Adler-32 lets one of a thousand pass in so short a text; TFRecord's own CRC does
      // not.
      if (compression == Compression::kGzip) {
        EXPECT_TRUE(!read.ok() || *read == text) << bit;
      }
      file[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    }
  }
}

/// The text that can be read, so much each time, until the file ends or fails.
std::string ReadableText(std::string_view file, Compression compression, std::size_t at_once,
                         std::size_t room_bytes = 1'000) {
  auto source = Decompress(std::make_unique<TrickleSource>(file, at_once), compression);
  EXPECT_TRUE(source.ok());
  std::string text;
  std::vector<std::byte> room(room_bytes);
  while (true) {
    const auto read = (*source)->Read(room);
    if (!read.ok()) {
      EXPECT_EQ((*source)->Read(room).status().message(), read.status().message());
      return text;
    }
    if (*read == 0) return text;
    text += Text(std::span(room).first(*read));
  }
}

TEST(CompressionTest, HandsOutWhatIsAheadOfDamageHoweverTheBytesCome) {
  const std::string text = Sample(300);
  for (const auto compression : {Compression::kGzip, Compression::kZlib}) {
    std::string file = Compressed(text, compression);
    for (std::size_t bit = 0; bit < file.size() * 8; ++bit) {
      file[bit / 8] ^= static_cast<char>(1 << (bit % 8));
      EXPECT_EQ(ReadableText(file, compression, file.size()), ReadableText(file, compression, 1))
          << bit;
      file[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    }
  }
}

// zlib may have taken all input while its output waits for room.
TEST(CompressionTest, HandsOutWhatIsAheadOfATruncationHoweverLittleIsRead) {
  // Both short and long copies of what came before.
  const std::string text = Sample(300) + std::string(700, 'a') + Sample(40);
  for (const auto compression : {Compression::kGzip, Compression::kZlib}) {
    const std::string file = Compressed(text, compression);
    for (std::size_t length = 1; length < file.size(); ++length) {
      const std::string_view cut = std::string_view(file).substr(0, length);
      const std::string readable = ReadableText(cut, compression, length, text.size());
      for (const std::size_t room_bytes : {1U, 12U, 64U}) {
        EXPECT_EQ(ReadableText(cut, compression, length, room_bytes), readable) << length;
        EXPECT_EQ(ReadableText(cut, compression, 1, room_bytes), readable) << length;
      }
    }
  }
}

TEST(CompressionTest, RefusesOtherNamesAndLevels) {
  EXPECT_EQ(CompressionFrom("").value(), Compression::kNone);
  EXPECT_EQ(CompressionFrom("GZIP").value(), Compression::kGzip);
  EXPECT_EQ(CompressionFrom("ZLIB").value(), Compression::kZlib);
  EXPECT_THAT(CompressionFrom("gzip2").status().message(),
              HasSubstr("compression must be '', GZIP or ZLIB, not 'gzip2'"));
  std::string file;
  EXPECT_FALSE(Compress(std::make_unique<MemorySink>("m", file), Compression::kGzip, 10).ok());
}

}  // namespace
}  // namespace tfos::records
