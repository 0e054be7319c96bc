#include "net/tls/record_key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

namespace tfos::net {
namespace {

using Bytes = std::vector<std::byte>;

Bytes FromHex(std::string_view hex) {
  Bytes bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  }
  return bytes;
}

Bytes Counting(std::size_t count) {
  Bytes bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(i);
  return bytes;
}

RecordKey Make(RecordKey::Use use, const Secret& secret) {
  return std::move(RecordKey::Create(use, secret)).value();
}

Bytes Seal(RecordKey& key, const Bytes& first, const Bytes& second) {
  Bytes record(RecordBytes(first.size() + second.size()));
  EXPECT_TRUE(key.Seal(RecordType::kData, first, second, record).ok());
  return record;
}

/// The data of a record; nothing if it can't be opened.
Result<Bytes> Open(RecordKey& key, const Bytes& record) {
  Bytes data(RecordKey::RoomFor(record.size()));
  std::array<std::byte, kRecordLineBytes> rest{};
  TFOS_ASSIGN_OR_RETURN(const RecordKey::Opened opened, key.Open(record, data, rest));
  EXPECT_EQ(opened.type, RecordType::kData);
  data.insert(data.end(), rest.begin(), rest.end());
  data.resize(opened.bytes);
  return data;
}

// RFC 8448, 3: what the client of a handshake sends.
TEST(RecordKeyTest, OpensWhatTheStandardHas) {
  RecordKey key =
      Make(RecordKey::Use::kOpen,
           *Secret::FromHex("9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5"));
  const Bytes record = FromHex(
      "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a2044"
      "1e"
      "2b62974e1f5a6292a2977014bd1e3deae63aeebb21694915e4");
  const auto data = Open(key, record);
  ASSERT_TRUE(data.ok()) << data.status().ToString();
  EXPECT_EQ(*data, Counting(50));
}

TEST(RecordKeyTest, WhatIsSealedIsOpened) {
  const Secret secret = *Secret::Generate();
  RecordKey seal = Make(RecordKey::Use::kSeal, secret);
  RecordKey open = Make(RecordKey::Use::kOpen, secret);
  for (const std::size_t first : {0, 1, 64, 100, 8000}) {
    for (const std::size_t second : {0, 1, 20, 21, 42, 43, 64, 8320}) {
      Bytes all = Counting(first);
      const Bytes data = Counting(second);
      const Bytes record = Seal(seal, all, data);
      EXPECT_EQ(record.size() % kRecordLineBytes, 0U);
      all.insert(all.end(), data.begin(), data.end());
      const auto opened = Open(open, record);
      ASSERT_TRUE(opened.ok()) << opened.status().ToString();
      EXPECT_EQ(*opened, all);
    }
    // Both ends take the next key at the same place.
    ASSERT_TRUE(seal.Update().ok());
    ASSERT_TRUE(open.Update().ok());
  }
  EXPECT_EQ(RecordBytes(kMostRecordDataBytes), std::size_t{16} << 10);
}

TEST(RecordKeyTest, AnyWrongBitIsNoticed) {
  const Secret secret = *Secret::Generate();
  RecordKey seal = Make(RecordKey::Use::kSeal, secret);
  const Bytes record = Seal(seal, Counting(10), Counting(60));
  for (std::size_t bit = 0; bit < record.size() * 8; ++bit) {
    // What follows the head says how long it is: that is the stream's to look at.
    Bytes wrong = record;
    wrong[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    RecordKey open = Make(RecordKey::Use::kOpen, secret);
    EXPECT_EQ(Open(open, wrong).status().kind(), ErrorKind::kBadInput) << bit;
  }
}

TEST(RecordKeyTest, RecordsAreOpenedOnceAndInTheirOrder) {
  const Secret secret = *Secret::Generate();
  RecordKey seal = Make(RecordKey::Use::kSeal, secret);
  const Bytes one = Seal(seal, Counting(10), {});
  const Bytes two = Seal(seal, Counting(10), {});
  EXPECT_NE(one, two) << "the nonce is another one";
  {
    RecordKey open = Make(RecordKey::Use::kOpen, secret);
    EXPECT_FALSE(Open(open, two).ok());
  }
  RecordKey open = Make(RecordKey::Use::kOpen, secret);
  EXPECT_TRUE(Open(open, one).ok());
  EXPECT_FALSE(Open(open, one).ok());
}

TEST(RecordKeyTest, WhoMissesAKeyUpdateReadsNothing) {
  const Secret secret = *Secret::Generate();
  RecordKey seal = Make(RecordKey::Use::kSeal, secret);
  RecordKey open = Make(RecordKey::Use::kOpen, secret);
  ASSERT_TRUE(seal.Update().ok());
  EXPECT_FALSE(Open(open, Seal(seal, Counting(10), {})).ok());
}

}  // namespace
}  // namespace tfos::net
