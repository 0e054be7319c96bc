#include "records/schema/feature.h"

namespace tfos::records {

std::string_view FeatureKindName(FeatureKind kind) {
  switch (kind) {
    case FeatureKind::kMissing:
      return "no list";
    case FeatureKind::kBytes:
      return "a bytes_list";
    case FeatureKind::kFloat:
      return "a float_list";
    case FeatureKind::kInt64:
      return "an int64_list";
  }
  return "";
}

bool Feature::ParsePieces(std::span<const std::byte> feature) {
  kind_ = FeatureKind::kMissing;
  pieces_ = {};
  // Lists of one kind are pieces of one list; one of another kind takes the place of what was
  // before.
  const std::byte* begin = feature.data();
  WireReader reader(feature);
  while (!reader.done()) {
    const std::byte* const here = reader.at();
    std::uint32_t field = 0;
    WireType type{};
    if (!reader.ReadTag(field, type) || !reader.Skip(field, type)) return false;
    if (type != WireType::kBytes || field < 1 || field > 3) continue;
    const auto kind = static_cast<FeatureKind>(field);
    if (kind != kind_) begin = here;
    kind_ = kind;
  }
  if (kind_ != FeatureKind::kMissing) {
    pieces_ = feature.subspan(static_cast<std::size_t>(begin - feature.data()));
  }
  return true;
}

}  // namespace tfos::records
