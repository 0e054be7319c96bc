#include "records/schema/record_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tfos::records {
namespace {

using testing::HasSubstr;

TEST(RecordOptionsTest, RecordTypesAreKnownWhateverTheirCase) {
  EXPECT_EQ(RecordTypeNamed("example").value(), RecordType::kExample);
  EXPECT_EQ(RecordTypeNamed("SEQUENCEEXAMPLE").value(), RecordType::kSequenceExample);
  EXPECT_EQ(RecordTypeNamed("byteArray").value(), RecordType::kByteArray);
  for (const char* name : {"Example", "SequenceExample", "ByteArray"}) {
    EXPECT_EQ(RecordTypeName(RecordTypeNamed(name).value()), name);
  }
  const auto other = RecordTypeNamed("Other");
  EXPECT_EQ(other.status().kind(), ErrorKind::kBadInput);
  EXPECT_THAT(other.status().ToString(),
              HasSubstr("recordType 'Other' is none of Example, SequenceExample, ByteArray"));
}

TEST(RecordOptionsTest, CompressionsAreKnownByOption) {
  for (const char* name : {"", "none", "Uncompressed"}) {
    EXPECT_EQ(CompressionNamed(name).value(), Compression::kNone) << name;
  }
  EXPECT_EQ(CompressionNamed("GZip").value(), Compression::kGzip);
  EXPECT_EQ(CompressionNamed("zlib").value(), Compression::kZlib);
  EXPECT_THAT(CompressionNamed("lz4").status().ToString(),
              HasSubstr("compression 'lz4' is none of none, gzip, zlib"));
}

TEST(RecordOptionsTest, CompressionsAreKnownByTheFilesName) {
  EXPECT_EQ(CompressionOfPath("hdfs://h/d.gz/part"), Compression::kNone);
  EXPECT_EQ(CompressionOfPath("/d/part.tfrecord.GZ"), Compression::kGzip);
  EXPECT_EQ(CompressionOfPath("part.gzip"), Compression::kGzip);
  EXPECT_EQ(CompressionOfPath("part.zlib"), Compression::kZlib);
  EXPECT_EQ(CompressionOfPath("part.deflate"), Compression::kZlib);
  EXPECT_EQ(CompressionOfPath(""), Compression::kNone);
}

TEST(RecordOptionsTest, WhatIsWrittenIsReadTheSameWay) {
  for (const Compression kind : {Compression::kNone, Compression::kGzip, Compression::kZlib}) {
    EXPECT_EQ(CompressionOfPath(std::string("part.tfrecord") + std::string(SuffixOf(kind))), kind);
    EXPECT_EQ(CompressionFrom(CompressionName(kind)).value(), kind);
  }
}

}  // namespace
}  // namespace tfos::records
