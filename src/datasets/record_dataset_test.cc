#include "datasets/record_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "records/example/test_examples.h"
#include "tensorflow/tf_codes.h"
#include "testing/temporary_folder.h"

namespace tfos::datasets {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

tfos_batch_source registered{};

/// In place of the ops library's function.
std::int64_t Register(const tfos_batch_source* source) {
  registered = *source;
  registered.retain(registered.context);
  return 7;
}

/// Files of records whose only key, n, has these numbers; files go when the test ends.
class RecordDatasetTest : public ::testing::Test {
 protected:
  ~RecordDatasetTest() override {
    if (registered.context != nullptr) registered.release(registered.context);
    registered = {};
  }

  void Add(const std::vector<std::int64_t>& numbers) {
    std::vector<std::string> records;
    for (const std::int64_t n : numbers) {
      records.push_back(records::ExampleOf({{"n", records::Int64Feature({n})}}));
    }
    const std::string path = folder_.path() / std::to_string(options_.files.size());
    std::ofstream(path, std::ios::binary) << records::FileOf(records);
    options_.files.push_back({.path = path});
  }

  tfos_batch_source Open() {
    tfos_batch_source pass{};
    EXPECT_EQ(registered.open(registered.context, &pass), 1);
    return pass;
  }

  /// The numbers of a pass, batch by batch, to its end or failure: code_ and message_.
  std::vector<std::vector<std::int64_t>> ReadAll(const tfos_batch_source& pass) {
    std::vector<std::vector<std::int64_t>> read;
    while (true) {
      while (pass.await(pass.context) != 0) {
      }
      tfos_batch batch{};
      pass.next(pass.context, &batch);
      code_ = batch.code;
      message_ = batch.message == nullptr ? "" : batch.message;
      if (code_ == tensorflow::kTfOk) {
        EXPECT_EQ(batch.tensors, 1);
        const auto* const values = static_cast<const std::int64_t*>(batch.tensor[0].data);
        read.emplace_back(values, values + batch.tensor[0].dims[0]);
      }
      pass.release_batch(&batch);
      if (code_ != tensorflow::kTfOk) return read;
    }
  }

  const tfos::testing::TemporaryFolder folder_;
  records::ExampleBatchesOptions options_{
      .files = {}, .schema = records::SchemaOf({"n:int64"}), .rows = 2, .on_file_end = {}};
  std::int32_t code_ = 0;
  std::string message_;
};

TEST_F(RecordDatasetTest, EveryPassReadsAllFiles) {
  Add({1, 2, 3});
  Add({4, 5});
  const auto handle = RegisterRecordDataset(options_, &Register);
  ASSERT_TRUE(handle.ok()) << handle.status().DebugString();
  EXPECT_EQ(*handle, 7);
  for (int pass = 0; pass < 2; ++pass) {
    const tfos_batch_source source = Open();
    EXPECT_THAT(ReadAll(source), ElementsAre(ElementsAre(1, 2), ElementsAre(3, 4), ElementsAre(5)));
    EXPECT_EQ(code_, tensorflow::kTfOutOfRange);
    EXPECT_THAT(ReadAll(source), IsEmpty()) << "the end comes again";
    EXPECT_EQ(code_, tensorflow::kTfOutOfRange);
    source.release(source.context);
  }
}

TEST_F(RecordDatasetTest, AFailureComesAgainAndNamesTheFile) {
  Add({1, 2});
  options_.files.push_back({.path = folder_.path() / "missing"});
  ASSERT_TRUE(RegisterRecordDataset(options_, &Register).ok());
  const tfos_batch_source source = Open();
  EXPECT_THAT(ReadAll(source), ElementsAre(ElementsAre(1, 2)));
  EXPECT_NE(code_, tensorflow::kTfOutOfRange);
  EXPECT_THAT(message_, HasSubstr("missing"));
  EXPECT_THAT(ReadAll(source), IsEmpty());
  EXPECT_THAT(message_, HasSubstr("missing"));
  source.release(source.context);
}

TEST_F(RecordDatasetTest, APassMayBeDroppedWhileItReads) {
  std::vector<std::int64_t> numbers(1000, 1);
  Add(numbers);
  options_.rows = 1;
  ASSERT_TRUE(RegisterRecordDataset(options_, &Register).ok());
  for (int pass = 0; pass < 20; ++pass) {
    const tfos_batch_source source = Open();
    source.release(source.context);
  }
  const tfos_batch_source source = Open();
  EXPECT_EQ(ReadAll(source).size(), 1000U);
  source.release(source.context);
}

TEST_F(RecordDatasetTest, AnOpsLibraryOfAnotherVersionIsNamed) {
  const auto handle =
      RegisterRecordDataset(options_, [](const tfos_batch_source*) { return std::int64_t{0}; });
  ASSERT_FALSE(handle.ok());
  EXPECT_EQ(handle.status().kind(), ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace tfos::datasets
