#include "records/schema/record_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"

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
              HasSubstr("recordType must be Example, SequenceExample or ByteArray, not 'Other'"));
}

TEST(RecordOptionsTest, ModesAreKnownWhateverTheirCase) {
  EXPECT_EQ(ModeNamed("FailFast").value(), "failfast");
  EXPECT_EQ(ModeNamed("DROPMALFORMED").value(), "dropmalformed");
  EXPECT_EQ(ModeNamed("permissive").value(), "permissive");
  EXPECT_THAT(ModeNamed("Other").status().ToString(),
              HasSubstr("mode must be failfast, dropmalformed or permissive, not 'Other'"));
}

TEST(RecordOptionsTest, FlagsAreTrueOrFalse) {
  EXPECT_TRUE(FlagOf("index", "True").value());
  EXPECT_FALSE(FlagOf("index", "FALSE").value());
  for (const char* value : {"", "yes", "1", " true"}) {
    EXPECT_THAT(FlagOf("index", value).status().ToString(), HasSubstr("is neither true nor false"));
  }
}

TEST(RecordOptionsTest, CountsAreDigits) {
  EXPECT_EQ(CountOf("sampleRecords", "1").value(), 1);
  EXPECT_EQ(CountOf("sampleRecords", "9223372036854775807").value(), 9223372036854775807);
  for (const char* value : {"", "0", "-1", "+5", "5 ", "0x5", "1e3", "9223372036854775808"}) {
    EXPECT_THAT(CountOf("sampleRecords", value).status().ToString(),
                HasSubstr(fmt::format("sampleRecords='{}' is not a positive number", value)));
  }
}

TEST(RecordOptionsTest, LevelsAreThoseOfZlib) {
  EXPECT_EQ(CompressionLevelOf("0").value(), 0);
  EXPECT_EQ(CompressionLevelOf("9").value(), 9);
  for (const char* value : {"", "10", "-1", "-0", "+5", "best", "99999999999999999999"}) {
    EXPECT_THAT(CompressionLevelOf(value).status().ToString(),
                HasSubstr(fmt::format("compressionLevel must be from 0 to 9, not '{}'", value)));
  }
}

TEST(RecordOptionsTest, OnlyUncompressedFilesHaveAnIndex) {
  EXPECT_TRUE(CheckIndex(true, Compression::kNone).ok());
  EXPECT_TRUE(CheckIndex(false, Compression::kGzip).ok());
  EXPECT_THAT(CheckIndex(true, Compression::kGzip).ToString(),
              HasSubstr("index goes with uncompressed files only, and these are GZIP"));
}

TEST(RecordOptionsTest, CompressionsAreKnownByOption) {
  for (const char* name : {"", "none", "Uncompressed"}) {
    EXPECT_EQ(CompressionNamed(name).value(), Compression::kNone) << name;
  }
  EXPECT_EQ(CompressionNamed("GZip").value(), Compression::kGzip);
  EXPECT_EQ(CompressionNamed("zlib").value(), Compression::kZlib);
  EXPECT_THAT(CompressionNamed("lz4").status().ToString(),
              HasSubstr("compression must be none, gzip or zlib, not 'lz4'"));
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
