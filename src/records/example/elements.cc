#include "records/example/elements.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/memory/unaligned.h"
#include "base/text/utf8.h"
#include "records/example/value_buffer.h"
#include "records/schema/wire_format.h"

namespace tfos::records {
namespace {

template <typename T>
void TakeBuffer(ValueBuffer<T>& values, arrow::Field& field) {
  std::shared_ptr<const T> memory = values.Take();
  field.buffers.push_back(memory.get());
  field.memory.push_back(std::move(memory));
}

/// What a list holds is the same for all types of numbers; `Self` says what to do with it:
///   bool AppendPacked(span)      all values, one behind the other
///   bool AppendOne(reader)       one value, which comes next; its wire type is kOneWireType
template <typename Self>
Problem ReadNumbers(std::span<const std::byte> list, Self& self) {
  WireReader reader(list);
  std::span<const std::byte> packed;
  if (reader.TakeOnly(TagByte(kListValueField, WireType::kBytes), packed)) {
    return self.AppendPacked(packed);
  }
  while (!reader.done()) {
    std::uint32_t field = 0;
    WireType type{};
    Problem problem = Problem::kNone;
    if (!reader.ReadTag(field, type)) return Problem::kMalformed;
    if (field == kListValueField && type == WireType::kBytes) {
      if (!reader.ReadBytes(packed)) return Problem::kMalformed;
      problem = self.AppendPacked(packed);
    } else if (field == kListValueField && type == Self::kOneWireType) {
      problem = self.AppendOne(reader);
    } else if (!reader.Skip(field, type)) {
      return Problem::kMalformed;
    }
    if (problem != Problem::kNone) return problem;
  }
  return Problem::kNone;
}

/// float or double, of a FloatList.
template <typename T>
class FloatElements : public Elements {
 public:
  static constexpr WireType kOneWireType = WireType::kFixed32;

  explicit FloatElements(BufferPool& pool) : values_(pool) {}

  Problem Append(std::span<const std::byte> list) override { return ReadNumbers(list, *this); }

  Problem AppendPacked(std::span<const std::byte> packed) {
    if (packed.size() % sizeof(float) != 0) return Problem::kMalformed;
    const std::size_t count = packed.size() / sizeof(float);
    if (count == 0) return Problem::kNone;
    T* const to = values_.Extend(count);
    if constexpr (std::is_same_v<T, float>) {
      std::memcpy(to, packed.data(), packed.size());
    } else {
      for (std::size_t i = 0; i < count; ++i) {
        to[i] = Load<float>(packed.data() + i * sizeof(float));
      }
    }
    return Problem::kNone;
  }

  Problem AppendOne(WireReader& reader) {
    std::uint32_t bits = 0;
    if (!reader.ReadFixed32(bits)) return Problem::kMalformed;
    values_.Append(static_cast<T>(std::bit_cast<float>(bits)));
    return Problem::kNone;
  }

  void AppendZeros(std::size_t count) override { std::fill_n(values_.Extend(count), count, T{0}); }
  std::size_t size() const override { return values_.size(); }
  void Truncate(std::size_t size) override { values_.Truncate(size); }
  void Take(arrow::Field& field) override { TakeBuffer(values_, field); }

 private:
  ValueBuffer<T> values_;
};

constexpr std::uint64_t kHighBits = 0x8080808080808080;

/// How many integers a packed list holds: each ends with the only byte that has no high bit. False
/// if the last one does not end.
bool CountPacked(std::span<const std::byte> packed, std::size_t& count) {
  std::size_t found = 0;
  for (const std::byte byte : packed) found += std::to_integer<unsigned>(byte) < 0x80 ? 1 : 0;
  count = found;
  return packed.empty() || std::to_integer<unsigned>(packed.back()) < 0x80;
}

/// Calls `use(int64)` for each integer, while it says true; false if it did not, or for bytes that
/// are none. The last of them ends: CountPacked said so.
template <typename Use>
bool ForEachPacked(std::span<const std::byte> packed, Use&& use) {
  const std::byte* at = packed.data();
  const std::byte* const end = at + packed.size();
  while (at != end) {
    if (static_cast<std::size_t>(end - at) >= sizeof(std::uint64_t)) {
      const auto eight = Load<std::uint64_t>(at);
      if ((eight & kHighBits) == 0) {
        for (std::size_t i = 0; i < sizeof eight; ++i) {
          if (!use(static_cast<std::int64_t>((eight >> (8 * i)) & 0x7F))) return false;
        }
        at += sizeof eight;
        continue;
      }
    }
    std::uint64_t value = 0;
    for (int i = 0;; ++i, ++at) {
      if (i == kMostVarintBytes) return false;
      const auto byte = std::to_integer<std::uint64_t>(*at);
      value |= (byte & 0x7F) << (7 * i);
      if (byte < 0x80) break;
    }
    ++at;
    if (!use(static_cast<std::int64_t>(value))) return false;
  }
  return true;
}

/// An integer type, of an Int64List.
template <typename T>
class IntegerElements : public Elements {
 public:
  static constexpr WireType kOneWireType = WireType::kVarint;

  explicit IntegerElements(BufferPool& pool) : values_(pool) {}

  Problem Append(std::span<const std::byte> list) override { return ReadNumbers(list, *this); }

  Problem AppendPacked(std::span<const std::byte> packed) {
    std::size_t count = 0;
    if (!CountPacked(packed, count)) return Problem::kMalformed;
    T* to = values_.Extend(count);
    bool fits = true;
    const bool read = ForEachPacked(packed, [&](std::int64_t value) {
      *to = static_cast<T>(value);
      fits = *to == value;
      ++to;
      return fits;
    });
    return read ? Problem::kNone : fits ? Problem::kMalformed : Problem::kOutOfRange;
  }

  Problem AppendOne(WireReader& reader) {
    std::uint64_t bits = 0;
    if (!reader.ReadVarint(bits)) return Problem::kMalformed;
    const auto value = static_cast<std::int64_t>(bits);
    if (static_cast<T>(value) != value) return Problem::kOutOfRange;
    values_.Append(static_cast<T>(value));
    return Problem::kNone;
  }

  void AppendZeros(std::size_t count) override { std::fill_n(values_.Extend(count), count, T{0}); }
  std::size_t size() const override { return values_.size(); }
  void Truncate(std::size_t size) override { values_.Truncate(size); }
  void Take(arrow::Field& field) override { TakeBuffer(values_, field); }

 private:
  ValueBuffer<T> values_;
};

/// Bits, of an Int64List.
class BoolElements : public Elements {
 public:
  static constexpr WireType kOneWireType = WireType::kVarint;

  explicit BoolElements(BufferPool& pool) : bits_(pool) {}

  Problem Append(std::span<const std::byte> list) override { return ReadNumbers(list, *this); }

  Problem AppendPacked(std::span<const std::byte> packed) {
    std::size_t count = 0;
    const bool read = CountPacked(packed, count) && ForEachPacked(packed, [&](std::int64_t value) {
                        Push(value != 0);
                        return true;
                      });
    return read ? Problem::kNone : Problem::kMalformed;
  }

  Problem AppendOne(WireReader& reader) {
    std::uint64_t value = 0;
    if (!reader.ReadVarint(value)) return Problem::kMalformed;
    Push(value != 0);
    return Problem::kNone;
  }

  void AppendZeros(std::size_t count) override {
    for (std::size_t i = 0; i < count; ++i) Push(false);
  }
  std::size_t size() const override { return size_; }
  void Truncate(std::size_t size) override {
    size_ = size;
    bits_.Truncate((size + 7) / 8);
    if (size % 8 != 0) {
      std::uint8_t& last = bits_.data()[size / 8];
      last = static_cast<std::uint8_t>(last & ((1U << (size % 8)) - 1));
    }
  }
  void Take(arrow::Field& field) override {
    TakeBuffer(bits_, field);
    size_ = 0;
  }

 private:
  void Push(bool value) {
    if (size_ % 8 == 0) bits_.Append(0);
    std::uint8_t& last = bits_.data()[size_ / 8];
    last = static_cast<std::uint8_t>(last | static_cast<unsigned>(value) << (size_ % 8));
    ++size_;
  }

  ValueBuffer<std::uint8_t> bits_;
  std::size_t size_ = 0;
};

/// Strings or binary, of a BytesList.
class StringElements : public Elements {
 public:
  StringElements(bool text, BufferPool& pool) : text_(text), offsets_(pool), data_(pool) {
    offsets_.Append(0);
  }

  Problem Append(std::span<const std::byte> list) override {
    WireReader reader(list);
    std::span<const std::byte> bytes;
    while (!reader.done()) {
      std::uint32_t field = 0;
      WireType type{};
      if (!reader.ReadTag(field, type)) return Problem::kMalformed;
      if (field != kListValueField || type != WireType::kBytes) {
        if (!reader.Skip(field, type)) return Problem::kMalformed;
        continue;
      }
      if (!reader.ReadBytes(bytes)) return Problem::kMalformed;
      if (const Problem problem = AppendBytes(bytes); problem != Problem::kNone) return problem;
    }
    return Problem::kNone;
  }

  Problem AppendBytes(std::span<const std::byte> bytes) final {
    if (text_ && !IsUtf8({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
      return Problem::kNotUtf8;
    }
    if (bytes.size() > kMostElements - data_.size()) return Problem::kTooMany;
    if (!bytes.empty()) std::memcpy(data_.Extend(bytes.size()), bytes.data(), bytes.size());
    offsets_.Append(static_cast<std::int32_t>(data_.size()));
    return Problem::kNone;
  }

  void AppendZeros(std::size_t count) override {
    std::fill_n(offsets_.Extend(count), count, static_cast<std::int32_t>(data_.size()));
  }
  std::size_t size() const override { return offsets_.size() - 1; }
  void Truncate(std::size_t size) override {
    offsets_.Truncate(size + 1);
    data_.Truncate(static_cast<std::size_t>(offsets_.data()[size]));
  }
  void Take(arrow::Field& field) override {
    TakeBuffer(offsets_, field);
    TakeBuffer(data_, field);
    offsets_.Append(0);
  }

 private:
  const bool text_;
  ValueBuffer<std::int32_t> offsets_;
  ValueBuffer<std::byte> data_;
};

}  // namespace

std::unique_ptr<Elements> Elements::Create(ElementType type, BufferPool& pool) {
  switch (type) {
    case ElementType::kBool:
      return std::make_unique<BoolElements>(pool);
    case ElementType::kInt8:
      return std::make_unique<IntegerElements<std::int8_t>>(pool);
    case ElementType::kInt16:
      return std::make_unique<IntegerElements<std::int16_t>>(pool);
    case ElementType::kInt32:
      return std::make_unique<IntegerElements<std::int32_t>>(pool);
    case ElementType::kInt64:
      return std::make_unique<IntegerElements<std::int64_t>>(pool);
    case ElementType::kFloat32:
      return std::make_unique<FloatElements<float>>(pool);
    case ElementType::kFloat64:
      return std::make_unique<FloatElements<double>>(pool);
    case ElementType::kString:
    case ElementType::kBinary:
      break;
  }
  return std::make_unique<StringElements>(type == ElementType::kString, pool);
}

}  // namespace tfos::records
