#ifndef TFOS_RECORDS_SCHEMA_SCHEMA_INFERENCE_H_
#define TFOS_RECORDS_SCHEMA_SCHEMA_INFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "records/schema/example_schema.h"
#include "records/schema/feature.h"
#include "tfos/status.h"

namespace tfos::records {

/// What `bytes_list` becomes.
enum class BytesAs {
  kBinary,
  kStringWhereUtf8,  ///< A string where all values of the sample are UTF-8.
};

/// Finds the columns that a sample of records has: docs/formats/tfrecord.md, "Inferred".
///
/// Owner and lifetime: keeps nothing of the records but their keys. Threads: one at a time.
/// Errors: kBadInput. `Add` fails for any other message; `Finish` when a key has two kinds,
/// naming a record of each. Both fail once there are more keys than kMostKeys, or their names are
/// longer than kMostKeyBytes together: then the records are not what they are taken for, or are
/// meant to use up memory.
class SchemaInference {
 public:
  static constexpr std::size_t kMostKeys = 65'536;
  static constexpr std::size_t kMostKeyBytes = std::size_t{16} << 20;

  SchemaInference(RecordType type, BytesAs bytes_as) : type_(type), bytes_as_(bytes_as) {}

  /// `origin` is what messages call the record, such as its file and number. Of one that can't be
  /// read to its end, nothing counts.
  Status Add(std::span<const std::byte> record, const std::string& origin);

  std::uint64_t records() const { return records_; }

  /// Columns in the order of their names.
  Result<ExampleSchema> Finish() const;

 private:
  /// What is known of a key.
  struct Facts {
    FeatureKind kind = FeatureKind::kMissing;
    std::string origin;  ///< Of the first record that has values.
    std::string conflict;
    std::uint64_t records = 0;      ///< That have it with values.
    std::uint64_t most_values = 0;  ///< In one of them.
    std::uint64_t last_record = 0;  ///< That counts in `records`: a key may come twice in one.
    bool utf8 = true;
    bool feature_list = false;
  };
  using Keys = std::map<std::string, Facts, std::less<>>;

  /// What is known of the key; null when there are too many.
  Facts* FactsOf(Keys& keys, std::string_view key, const std::string& origin);
  void Learn(Facts& facts, const Feature& feature, const std::string& origin) const;
  Status Describe(const std::string& key, const Facts& facts, ExampleSchema& schema) const;

  const RecordType type_;
  const BytesAs bytes_as_;
  std::uint64_t records_ = 0;
  std::size_t key_bytes_ = 0;
  Status too_many_;  ///< Failed once there are too many keys.
  Keys features_;
  Keys feature_lists_;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_SCHEMA_SCHEMA_INFERENCE_H_
