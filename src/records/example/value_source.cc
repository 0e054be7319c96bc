#include "records/example/value_source.h"

#include <bit>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/format.h"
#include "base/memory/unaligned.h"

namespace tfos::records {
namespace {

using arrow::Bit;
using arrow::FormatOf;

Status Bad(std::string_view column, std::string_view format, std::string_view what) {
  return {ErrorKind::kBadInput,
          fmt::format("column '{}', a part of the Arrow type '{}': {}", column, format, what)};
}

/// What a view of Arrow's arrays found, with the column's name.
Status Named(std::string_view column, const ArrowSchema& schema, const Status& found) {
  return found.ok() ? found : Bad(column, FormatOf(schema), found.message());
}

/// The positions of all of an array in its buffers.
Range AllOf(const ArrowArray& array) {
  return Range{0, static_cast<std::uint64_t>(array.length)}.Shifted(array.offset);
}

template <typename T>
T LoadAt(const void* buffer, std::uint64_t index) {
  return Load<T>(static_cast<const std::byte*>(buffer) + index * sizeof(T));
}

/// The list whose packed values take `packed` bytes.
std::size_t PackedListBytes(std::size_t packed) {
  return packed == 0 ? 0 : 1 + VarintBytes(packed) + packed;
}

/// Writes what precedes packed values in a list of `bytes`, which is not empty.
std::byte* BeginPacked(std::size_t packed, std::byte* to) {
  *to++ = TagByte(kListValueField, WireType::kBytes);
  return WriteVarint(packed, to);
}

template <typename T>
class FloatSource : public ValueSource {
 public:
  explicit FloatSource(const ArrowArray& array) : ValueSource(array), data_(array.buffers[1]) {}

  FeatureKind kind() const override { return FeatureKind::kFloat; }
  std::size_t ListBytes(Range values) const override {
    return PackedListBytes(values.size() * sizeof(float));
  }
  std::byte* WriteList(Range values, std::size_t bytes, std::byte* to) const override {
    if (bytes == 0) return to;
    const std::size_t packed = values.size() * sizeof(float);
    to = BeginPacked(packed, to);
    if constexpr (std::is_same_v<T, float>) {
      std::memcpy(to, static_cast<const float*>(data_) + offset_ + values.begin, packed);
    } else {
      for (std::uint64_t i = 0; i < values.size(); ++i) {
        StoreLittle(static_cast<float>(LoadAt<T>(data_, offset_ + values.begin + i)),
                    to + i * sizeof(float));
      }
    }
    return to + packed;
  }

 private:
  const void* data_;
};

struct BitValue {};  ///< bool, which Arrow packs.

template <typename T>
class IntegerSource : public ValueSource {
 public:
  explicit IntegerSource(const ArrowArray& array) : ValueSource(array), data_(array.buffers[1]) {}

  FeatureKind kind() const override { return FeatureKind::kInt64; }
  std::size_t ListBytes(Range values) const override { return PackedListBytes(Packed(values)); }
  std::byte* WriteList(Range values, std::size_t bytes, std::byte* to) const override {
    if (bytes == 0) return to;
    to = BeginPacked(PackedOfList(bytes), to);
    for (std::uint64_t i = values.begin; i < values.end; ++i) to = WriteVarint(At(i), to);
    return to;
  }

 private:
  std::size_t Packed(Range values) const {
    std::size_t bytes = 0;
    for (std::uint64_t i = values.begin; i < values.end; ++i) bytes += VarintBytes(At(i));
    return bytes;
  }

  /// The inverse of PackedListBytes. The length of the length depends on the length it is looked
  /// for, so the candidates are tried, of which one fits.
  static std::size_t PackedOfList(std::size_t bytes) {
    std::size_t length_bytes = 1;
    while (VarintBytes(bytes - 1 - length_bytes) != length_bytes) ++length_bytes;
    return bytes - 1 - length_bytes;
  }

  std::uint64_t At(std::uint64_t index) const {
    if constexpr (std::is_same_v<T, BitValue>) {
      return Bit(data_, offset_ + index) ? 1 : 0;
    } else {
      // Negative ones as 64 bits.
      return static_cast<std::uint64_t>(std::int64_t{LoadAt<T>(data_, offset_ + index)});
    }
  }

  const void* data_;
};

template <typename Offset>
class StringSource : public ValueSource {
 public:
  explicit StringSource(const ArrowArray& array)
      : ValueSource(array),
        offsets_(array.buffers[1]),
        data_(static_cast<const std::byte*>(array.buffers[2])) {}

  FeatureKind kind() const override { return FeatureKind::kBytes; }
  std::size_t ListBytes(Range values) const override {
    std::size_t bytes = 0;
    for (std::uint64_t i = values.begin; i < values.end; ++i) {
      const std::uint64_t length = Boundary(i + 1) - Boundary(i);
      bytes += 1 + VarintBytes(length) + length;
    }
    return bytes;
  }
  std::byte* WriteList(Range values, std::size_t /*bytes*/, std::byte* to) const override {
    for (std::uint64_t i = values.begin; i < values.end; ++i) {
      const std::uint64_t begin = Boundary(i);
      const std::uint64_t length = Boundary(i + 1) - begin;
      *to++ = TagByte(kListValueField, WireType::kBytes);
      to = WriteVarint(length, to);
      if (length != 0) std::memcpy(to, data_ + begin, length);
      to += length;
    }
    return to;
  }

 private:
  std::uint64_t Boundary(std::uint64_t index) const {
    return static_cast<std::uint64_t>(LoadAt<Offset>(offsets_, offset_ + index));
  }

  const void* offsets_;
  const std::byte* data_;
};

template <typename Source>
std::unique_ptr<ValueSource> Make(const ArrowArray& array) {
  return std::make_unique<Source>(array);
}

struct NumberFormat {
  std::string_view format;
  std::unique_ptr<ValueSource> (*make)(const ArrowArray& array);
};

constexpr NumberFormat kNumberFormats[] = {
    {"b", &Make<IntegerSource<BitValue>>},      {"c", &Make<IntegerSource<std::int8_t>>},
    {"s", &Make<IntegerSource<std::int16_t>>},  {"i", &Make<IntegerSource<std::int32_t>>},
    {"l", &Make<IntegerSource<std::int64_t>>},  {"C", &Make<IntegerSource<std::uint8_t>>},
    {"S", &Make<IntegerSource<std::uint16_t>>}, {"I", &Make<IntegerSource<std::uint32_t>>},
    {"f", &Make<FloatSource<float>>},           {"g", &Make<FloatSource<double>>},
};

template <typename Offset>
Result<std::unique_ptr<ValueSource>> OpenStrings(std::string_view column, const ArrowSchema& schema,
                                                 const ArrowArray& array) {
  constexpr std::int64_t kBuffers = 3;
  TFOS_RETURN_IF_ERROR(Named(column, schema, arrow::CheckArray(schema, array, kBuffers, 0)));
  const arrow::Offsets offsets(array, sizeof(Offset) == sizeof(std::int64_t));
  TFOS_RETURN_IF_ERROR(Named(
      column, schema, offsets.Check(AllOf(array), std::numeric_limits<Offset>::max()).status()));
  return Make<StringSource<Offset>>(array);
}

constexpr std::string_view kFixedListPrefix = "+w:";

}  // namespace

Result<std::unique_ptr<ValueSource>> ValueSource::Open(std::string_view column,
                                                       const ArrowSchema& schema,
                                                       const ArrowArray& array) {
  const std::string_view format = FormatOf(schema);
  for (const NumberFormat& number : kNumberFormats) {
    if (format != number.format) continue;
    TFOS_RETURN_IF_ERROR(Named(column, schema, arrow::CheckArray(schema, array, 2, 0)));
    return number.make(array);
  }
  if (format == "u" || format == "z") return OpenStrings<std::int32_t>(column, schema, array);
  if (format == "U" || format == "Z") return OpenStrings<std::int64_t>(column, schema, array);
  return Bad(column, format,
             "tf.Example has no counterpart of it; cast it to one of docs/formats/tfrecord.md");
}

ValueSource::ValueSource(const ArrowArray& array)
    : offset_(static_cast<std::uint64_t>(array.offset)), validity_(arrow::ValidityOf(array)) {}

bool ValueSource::HasNull(Range values) const {
  return arrow::FindNull(validity_, {offset_ + values.begin, offset_ + values.end}).has_value();
}

Result<ListSource> ListSource::Open(std::string_view column, const ArrowSchema& schema,
                                    const ArrowArray& array) {
  const std::string_view format = FormatOf(schema);
  ListSource source;
  source.fixed_ = format.starts_with(kFixedListPrefix);
  TFOS_RETURN_IF_ERROR(
      Named(column, schema, arrow::CheckArray(schema, array, source.fixed_ ? 1 : 2, 1)));
  source.validity_ = arrow::ValidityOf(array);
  source.offset_ = static_cast<std::uint64_t>(array.offset);
  const std::int64_t values = array.children[0]->length;
  if (!source.fixed_) {
    source.offsets_ = arrow::Offsets(array, format == "+L");
    TFOS_RETURN_IF_ERROR(
        Named(column, schema, source.offsets_.Check(AllOf(array), values).status()));
    return source;
  }
  const std::optional<std::int32_t> length = arrow::NumberAfter(format, kFixedListPrefix);
  if (!length || (*length != 0 && array.offset + array.length > values / *length)) {
    return Bad(column, format, "its lists do not lie on its values");
  }
  source.length_ = static_cast<std::uint64_t>(*length);
  return source;
}

bool ListSource::IsNull(std::uint64_t index) const {
  return validity_ != nullptr && !Bit(validity_, offset_ + index);
}

Range ListSource::ValuesOf(std::uint64_t index) const {
  const std::uint64_t at = offset_ + index;
  if (fixed_) return {at * length_, (at + 1) * length_};
  return {offsets_[at], offsets_[at + 1]};
}

}  // namespace tfos::records
