#ifndef TFOS_RECORDS_SCHEMA_FEATURE_H_
#define TFOS_RECORDS_SCHEMA_FEATURE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "records/schema/wire_format.h"

namespace tfos::records {

// The messages of tf.Example (docs/formats/tfrecord.md) as they lie in a record. Nothing in here
// owns bytes; false is returned for other bytes.

/// What a record is.
enum class RecordType {
  kExample,
  kSequenceExample,
  kByteArray,  ///< Bytes that are nobody's business: the value of the only column.
};

// Field numbers.
inline constexpr std::uint32_t kFeaturesField = 1;      ///< Of Example; the context likewise.
inline constexpr std::uint32_t kFeatureListsField = 2;  ///< Of SequenceExample.
inline constexpr std::uint32_t kEntryField = 1;         ///< Of Features and FeatureLists.
inline constexpr std::uint32_t kKeyField = 1;           ///< Of an entry.
inline constexpr std::uint32_t kValueField = 2;
inline constexpr std::uint32_t kFeatureField = 1;  ///< Of FeatureList.
inline constexpr std::uint32_t kListValueField = 1;

/// Which list a Feature has: its field number.
enum class FeatureKind : std::uint8_t { kMissing = 0, kBytes = 1, kFloat = 2, kInt64 = 3 };

/// The name of the list, for messages: "an int64_list".
std::string_view FeatureKindName(FeatureKind kind);

/// A Feature.
class Feature {
 public:
  /// Reads which list it has.
  bool Parse(std::span<const std::byte> feature) {
    WireReader reader(feature);
    if (feature.empty()) {
      kind_ = FeatureKind::kMissing;
      return true;
    }
    const auto tag = std::to_integer<std::uint32_t>(feature[0]);
    const std::uint32_t field = tag >> 3;
    if (field >= 1 && field <= 3 && reader.TakeOnly(TagByte(field, WireType::kBytes), list_)) {
      kind_ = static_cast<FeatureKind>(field);
      pieces_ = {};
      return true;
    }
    return ParsePieces(feature);
  }

  FeatureKind kind() const { return kind_; }

  /// Calls `use(list)` for the list, or for each of its pieces in turn, while it says true.
  template <typename Use>
  bool ForEachPiece(Use&& use) const {
    if (kind_ == FeatureKind::kMissing) return true;
    if (pieces_.empty()) return use(list_);
    return ForEachBytes(pieces_, [&](std::uint32_t field, std::span<const std::byte> list) {
      return field != static_cast<std::uint32_t>(kind_) || use(list);
    });
  }

 private:
  bool ParsePieces(std::span<const std::byte> feature);

  FeatureKind kind_ = FeatureKind::kMissing;
  std::span<const std::byte> list_;
  std::span<const std::byte> pieces_;  ///< Not empty: the list is all fields of its kind in here.
};

/// Calls `use(key, value)` for each entry of a map, in the order in which they lie.
template <typename Use>
bool ForEachEntry(std::span<const std::byte> map, Use&& use) {
  return ForEachBytes(map, [&](std::uint32_t field, std::span<const std::byte> entry) {
    if (field != kEntryField) return true;
    std::span<const std::byte> key = entry.first(0);
    std::span<const std::byte> value = entry.first(0);
    const bool parsed =
        ForEachBytes(entry, [&](std::uint32_t part, std::span<const std::byte> bytes) {
          if (part == kKeyField) key = bytes;
          if (part == kValueField) value = bytes;
          return true;
        });
    return parsed &&
           use(std::string_view(reinterpret_cast<const char*>(key.data()), key.size()), value);
  });
}

/// Calls `use(kFeaturesField or kFeatureListsField, key, value)` for each entry of a record.
template <typename Use>
bool ForEachFeature(std::span<const std::byte> record, RecordType type, Use&& use) {
  return ForEachBytes(record, [&](std::uint32_t field, std::span<const std::byte> map) {
    if (field != kFeaturesField &&
        !(field == kFeatureListsField && type == RecordType::kSequenceExample)) {
      return true;
    }
    return ForEachEntry(map, [&](std::string_view key, std::span<const std::byte> value) {
      return use(field, key, value);
    });
  });
}

}  // namespace tfos::records

#endif  // TFOS_RECORDS_SCHEMA_FEATURE_H_
