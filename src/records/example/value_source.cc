#include "records/example/value_source.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <type_traits>

#include "base/format.h"

namespace tfos::records {
namespace {

// Arrays are far below this, so that sums and products of a few lengths cannot overflow.
constexpr std::int64_t kMostValues = std::int64_t{1} << 40;

std::string_view FormatOf(const ArrowSchema& schema) {
  return schema.format == nullptr ? std::string_view() : std::string_view(schema.format);
}

Status Bad(std::string_view column, std::string_view format, std::string_view what) {
  return {ErrorKind::kBadInput,
          fmt::format("column '{}', a part of the Arrow type '{}': {}", column, format, what)};
}

/// Checks that an array is built of so many buffers and children.
Status CheckArray(std::string_view column, const ArrowSchema& schema, const ArrowArray& array,
                  std::int64_t buffers, std::int64_t children) {
  const auto bad = [&](std::string_view what) {
    return Bad(column, FormatOf(schema), fmt::format("not a valid array: {}", what));
  };
  if (schema.dictionary != nullptr || array.dictionary != nullptr) {
    return Bad(column, FormatOf(schema), "dictionary-encoded values; decode them first");
  }
  if (array.length < 0 || array.length > kMostValues || array.offset < 0 ||
      array.offset > kMostValues) {
    return bad(fmt::format("length {}, offset {}", array.length, array.offset));
  }
  if (array.n_buffers != buffers || array.buffers == nullptr) {
    return bad(fmt::format("{} buffers instead of {}", array.n_buffers, buffers));
  }
  if (array.buffers[0] == nullptr && array.null_count > 0) return bad("nulls without a bitmap");
  if (buffers > 1 && array.buffers[1] == nullptr && array.length > 0) {
    return bad("a buffer is missing");
  }
  if (schema.n_children != children || array.n_children != children ||
      (children != 0 && (schema.children == nullptr || schema.children[0] == nullptr ||
                         array.children == nullptr || array.children[0] == nullptr))) {
    return bad("its children are not as the type wants");
  }
  return Status::Ok();
}

template <typename T>
T LoadAt(const void* buffer, std::uint64_t index) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(buffer) + index * sizeof value, sizeof value);
  return value;
}

/// Checks that offsets begin at 0 or more, never fall, and end at `limit` at most.
template <typename Offset>
Status CheckOffsets(std::string_view column, std::string_view format, const ArrowArray& array,
                    std::int64_t limit) {
  if (array.length == 0) return Status::Ok();
  const auto first = static_cast<std::uint64_t>(array.offset);
  const std::uint64_t last = first + static_cast<std::uint64_t>(array.length);
  auto before = std::int64_t{LoadAt<Offset>(array.buffers[1], first)};
  if (before < 0) return Bad(column, format, "an offset is negative");
  for (std::uint64_t i = first + 1; i <= last; ++i) {
    const auto next = std::int64_t{LoadAt<Offset>(array.buffers[1], i)};
    if (next < before) return Bad(column, format, fmt::format("offset {} falls", i));
    before = next;
  }
  if (before > limit) {
    return Bad(column, format, fmt::format("an offset is {} where {} values are", before, limit));
  }
  return Status::Ok();
}

bool Bit(const void* bits, std::uint64_t index) {
  return (static_cast<const std::uint8_t*>(bits)[index / 8] >> (index % 8) & 1) != 0;
}

const std::uint8_t* ValidityOf(const ArrowArray& array) {
  return array.null_count == 0 ? nullptr : static_cast<const std::uint8_t*>(array.buffers[0]);
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
    for (std::uint64_t i = values.begin; i < values.end; ++i) to = WriteVarint(Load(i), to);
    return to;
  }

 private:
  std::size_t Packed(Range values) const {
    std::size_t bytes = 0;
    for (std::uint64_t i = values.begin; i < values.end; ++i) bytes += VarintBytes(Load(i));
    return bytes;
  }

  /// The inverse of PackedListBytes. The length of the length depends on the length it is looked
  /// for, so the candidates are tried, of which one fits.
  static std::size_t PackedOfList(std::size_t bytes) {
    std::size_t length_bytes = 1;
    while (VarintBytes(bytes - 1 - length_bytes) != length_bytes) ++length_bytes;
    return bytes - 1 - length_bytes;
  }

  std::uint64_t Load(std::uint64_t index) const {
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
  TFOS_RETURN_IF_ERROR(CheckArray(column, schema, array, kBuffers, 0));
  TFOS_RETURN_IF_ERROR(
      CheckOffsets<Offset>(column, FormatOf(schema), array, std::numeric_limits<Offset>::max()));
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
    TFOS_RETURN_IF_ERROR(CheckArray(column, schema, array, 2, 0));
    return number.make(array);
  }
  if (format == "u" || format == "z") return OpenStrings<std::int32_t>(column, schema, array);
  if (format == "U" || format == "Z") return OpenStrings<std::int64_t>(column, schema, array);
  return Bad(column, format,
             "tf.Example has no counterpart of it; cast it to one of docs/formats/tfrecord.md");
}

ValueSource::ValueSource(const ArrowArray& array)
    : offset_(static_cast<std::uint64_t>(array.offset)), validity_(ValidityOf(array)) {}

bool ValueSource::HasNull(Range values) const {
  if (validity_ == nullptr) return false;
  for (std::uint64_t i = values.begin; i < values.end; ++i) {
    if (!Bit(validity_, offset_ + i)) return true;
  }
  return false;
}

bool ListSource::IsList(std::string_view format) {
  return format == "+l" || format == "+L" || format.starts_with(kFixedListPrefix);
}

Result<ListSource> ListSource::Open(std::string_view column, const ArrowSchema& schema,
                                    const ArrowArray& array) {
  const std::string_view format = FormatOf(schema);
  ListSource source;
  source.layout_ = format == "+l"   ? Layout::kNarrow
                   : format == "+L" ? Layout::kWide
                                    : Layout::kFixed;
  TFOS_RETURN_IF_ERROR(
      CheckArray(column, schema, array, source.layout_ == Layout::kFixed ? 1 : 2, 1));
  source.array_ = &array;
  source.offset_ = static_cast<std::uint64_t>(array.offset);
  const std::int64_t values = array.children[0]->length;
  switch (source.layout_) {
    case Layout::kNarrow:
      TFOS_RETURN_IF_ERROR(CheckOffsets<std::int32_t>(column, format, array, values));
      break;
    case Layout::kWide:
      TFOS_RETURN_IF_ERROR(CheckOffsets<std::int64_t>(column, format, array, values));
      break;
    case Layout::kFixed: {
      std::int32_t length = -1;
      const char* const end = format.data() + format.size();
      const auto parsed = std::from_chars(format.data() + kFixedListPrefix.size(), end, length);
      if (parsed.ec != std::errc() || parsed.ptr != end || length < 0 ||
          (length != 0 && array.offset + array.length > values / length)) {
        return Bad(column, format, "its lists do not lie on its values");
      }
      source.length_ = static_cast<std::uint64_t>(length);
      break;
    }
  }
  return source;
}

bool ListSource::IsNull(std::uint64_t index) const {
  const std::uint8_t* const validity = ValidityOf(*array_);
  return validity != nullptr && !Bit(validity, offset_ + index);
}

Range ListSource::ValuesOf(std::uint64_t index) const {
  const std::uint64_t at = offset_ + index;
  const auto load = [&]<typename Offset>(Offset) {
    return Range{static_cast<std::uint64_t>(LoadAt<Offset>(array_->buffers[1], at)),
                 static_cast<std::uint64_t>(LoadAt<Offset>(array_->buffers[1], at + 1))};
  };
  switch (layout_) {
    case Layout::kNarrow:
      return load(std::int32_t{});
    case Layout::kWide:
      return load(std::int64_t{});
    case Layout::kFixed:
      break;
  }
  return {at * length_, (at + 1) * length_};
}

}  // namespace tfos::records
