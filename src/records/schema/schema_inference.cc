#include "records/schema/schema_inference.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/text/utf8.h"

namespace tfos::records {
namespace {

/// What is known of one list: how many values it has, and whether all are UTF-8.
struct ListFacts {
  std::uint64_t values = 0;
  bool utf8 = true;
};

bool LookAt(FeatureKind kind, std::span<const std::byte> list, ListFacts& facts) {
  WireReader reader(list);
  while (!reader.done()) {
    std::uint32_t field = 0;
    WireType type{};
    std::span<const std::byte> bytes;
    if (!reader.ReadTag(field, type)) return false;
    if (field != kListValueField || type != WireType::kBytes) {
      if (!reader.Skip(field, type)) return false;
      const WireType one = kind == FeatureKind::kFloat ? WireType::kFixed32 : WireType::kVarint;
      if (field == kListValueField && kind != FeatureKind::kBytes && type == one) ++facts.values;
      continue;
    }
    if (!reader.ReadBytes(bytes)) return false;
    switch (kind) {
      case FeatureKind::kMissing:
        break;
      case FeatureKind::kBytes:
        ++facts.values;
        facts.utf8 =
            facts.utf8 && IsUtf8({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
        break;
      case FeatureKind::kFloat:
        if (bytes.size() % sizeof(float) != 0) return false;
        facts.values += bytes.size() / sizeof(float);
        break;
      case FeatureKind::kInt64:
        // Each ends with its only byte below 128.
        facts.values += static_cast<std::uint64_t>(
            std::count_if(bytes.begin(), bytes.end(),
                          [](std::byte byte) { return std::to_integer<unsigned>(byte) < 0x80; }));
        break;
    }
  }
  return true;
}

bool LookAt(const Feature& feature, ListFacts& facts) {
  return feature.ForEachPiece(
      [&](std::span<const std::byte> piece) { return LookAt(feature.kind(), piece, facts); });
}

/// Calls `use(key, whether it is a feature list, feature)` for each Feature of a record, and once
/// for each feature list, which may be empty, with a Feature that has no list.
template <typename Use>
bool ForEachValue(std::span<const std::byte> record, RecordType type, Use&& use) {
  return ForEachFeature(
      record, type, [&](std::uint32_t map, std::string_view key, std::span<const std::byte> value) {
        Feature feature;
        if (map == kFeaturesField) return feature.Parse(value) && use(key, false, feature);
        return use(key, true, feature) &&
               ForEachBytes(value, [&](std::uint32_t field, std::span<const std::byte> bytes) {
                 return field != kFeatureField || (feature.Parse(bytes) && use(key, true, feature));
               });
      });
}

bool CanBeRead(std::span<const std::byte> record, RecordType type) {
  return ForEachValue(record, type, [](std::string_view, bool, const Feature& feature) {
    ListFacts facts{.utf8 = false};  // Nobody asks.
    return LookAt(feature, facts);
  });
}

ElementType TypeFor(FeatureKind kind, bool text) {
  switch (kind) {
    case FeatureKind::kMissing:
    case FeatureKind::kInt64:
      break;
    case FeatureKind::kFloat:
      return ElementType::kFloat32;
    case FeatureKind::kBytes:
      return text ? ElementType::kString : ElementType::kBinary;
  }
  return ElementType::kInt64;
}

}  // namespace

Status SchemaInference::Add(std::span<const std::byte> record, const std::string& origin) {
  // Callers may pass over a record that breaks off, and then nothing of it is to count.
  if (!CanBeRead(record, type_)) {
    return {ErrorKind::kBadInput,
            fmt::format("{}: the record is not a valid tf.{}", origin,
                        type_ == RecordType::kExample ? "Example" : "SequenceExample")};
  }
  ++records_;
  const bool learnt = ForEachValue(
      record, type_, [&](std::string_view key, bool feature_list, const Feature& feature) {
        Facts* const facts = FactsOf(feature_list ? feature_lists_ : features_, key, origin);
        if (facts == nullptr) return false;
        facts->feature_list = feature_list;
        Learn(*facts, feature, origin);
        return true;
      });
  return learnt ? Status::Ok() : too_many_;
}

SchemaInference::Facts* SchemaInference::FactsOf(Keys& keys, std::string_view key,
                                                 const std::string& origin) {
  const auto found = keys.find(key);
  if (found != keys.end()) return &found->second;
  if (features_.size() + feature_lists_.size() == kMostKeys ||
      key.size() > kMostKeyBytes - key_bytes_) {
    if (too_many_.ok()) {
      too_many_ = {ErrorKind::kBadInput,
                   fmt::format("{}: with it there are more than {} keys, or {} bytes of their "
                               "names; give a schema with the columns that are wanted",
                               origin, kMostKeys, kMostKeyBytes)};
    }
    return nullptr;
  }
  key_bytes_ += key.size();
  return &keys.emplace(key, Facts()).first->second;
}

void SchemaInference::Learn(Facts& facts, const Feature& feature, const std::string& origin) const {
  ListFacts list;
  LookAt(feature, list);
  if (list.values == 0 && !facts.feature_list) return;
  if (facts.last_record != records_) ++facts.records;
  facts.last_record = records_;
  if (list.values == 0) return;
  if (facts.kind == FeatureKind::kMissing) {
    facts.kind = feature.kind();
    facts.origin = origin;
  } else if (facts.kind != feature.kind() && facts.conflict.empty()) {
    facts.conflict = fmt::format("{} in {} and {} in {}", FeatureKindName(facts.kind), facts.origin,
                                 FeatureKindName(feature.kind()), origin);
  }
  facts.most_values = std::max(facts.most_values, list.values);
  facts.utf8 = facts.utf8 && list.utf8;
}

Result<ExampleSchema> SchemaInference::Finish() const {
  TFOS_RETURN_IF_ERROR(too_many_);
  ExampleSchema schema;
  for (const Keys* keys : {&features_, &feature_lists_}) {
    for (const auto& [key, facts] : *keys) {
      if (keys == &feature_lists_ && features_.contains(key)) {
        return Status(ErrorKind::kBadInput,
                      fmt::format("key '{}' is in the context and among the feature lists; give a "
                                  "schema that has one of them",
                                  key));
      }
      TFOS_RETURN_IF_ERROR(Describe(key, facts, schema));
    }
  }
  std::sort(schema.columns.begin(), schema.columns.end(),
            [](const auto& one, const auto& other) { return one.name < other.name; });
  return schema;
}

Status SchemaInference::Describe(const std::string& key, const Facts& facts,
                                 ExampleSchema& schema) const {
  if (!facts.conflict.empty()) {
    return {ErrorKind::kBadInput,
            fmt::format("key '{}' is {}; give a schema with the type that it should have", key,
                        facts.conflict)};
  }
  if (!IsUtf8(key)) return {ErrorKind::kBadInput, "a key is not UTF-8, so no column has its name"};
  if (facts.kind == FeatureKind::kMissing) return Status::Ok();
  ExampleColumn column{.name = key};
  column.type = TypeFor(facts.kind, bytes_as_ == BytesAs::kStringWhereUtf8 && facts.utf8);
  column.nullable = facts.records != records_;
  column.shape = facts.feature_list       ? ColumnShape::kListOfLists
                 : facts.most_values == 1 ? ColumnShape::kSingle
                                          : ColumnShape::kList;
  schema.columns.push_back(std::move(column));
  return Status::Ok();
}

}  // namespace tfos::records
