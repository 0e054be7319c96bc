#include "arrow/array_view.h"

#include <charconv>
#include <string>

#include "base/format.h"

namespace tfos::arrow {
namespace {

Status Bad(std::string what) { return {ErrorKind::kBadInput, std::move(what)}; }

template <typename Offset>
Result<Extent> CheckOffsets(const std::byte* offsets, Range range, std::int64_t limit) {
  const auto at = [offsets](std::uint64_t index) {
    return std::int64_t{Load<Offset>(offsets + index * sizeof(Offset))};
  };
  Extent extent;
  if (range.size() == 0) return extent;
  const std::int64_t first = at(range.begin);
  if (first < 0) return Bad(fmt::format("offset {} is negative", range.begin));
  std::int64_t last = first;
  for (std::uint64_t i = range.begin + 1; i <= range.end; ++i) {
    const std::int64_t next = at(i);
    if (next < last) return Bad(fmt::format("offset {} falls", i));
    const auto length = static_cast<std::uint64_t>(next - last);
    if (i == range.begin + 1) extent.length = length;
    extent.same_length = extent.same_length && length == extent.length;
    last = next;
  }
  if (last > limit) {
    return Bad(fmt::format("an offset is {} where {} elements are", last, limit));
  }
  extent.range = {static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last)};
  return extent;
}

}  // namespace

std::optional<std::int32_t> NumberAfter(std::string_view format, std::string_view prefix) {
  std::int32_t number = 0;
  const char* const end = format.data() + format.size();
  if (!format.starts_with(prefix)) return std::nullopt;
  const auto parsed = std::from_chars(format.data() + prefix.size(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0) return std::nullopt;
  return number;
}

bool IsList(std::string_view format) {
  return format == "+l" || format == "+L" || format.starts_with("+w:");
}

bool IsOneOf(const ArrowSchema& schema, std::string_view format) {
  return schema.n_children == 1 && schema.children != nullptr && schema.children[0] != nullptr &&
         FormatOf(*schema.children[0]) == format;
}

Status CheckArray(const ArrowSchema& schema, const ArrowArray& array, std::int64_t buffers,
                  std::int64_t children, std::int64_t elements) {
  const auto bad = [&](std::string_view what) {
    return Bad(fmt::format("not a valid array of '{}': {}", FormatOf(schema), what));
  };
  if (schema.dictionary != nullptr || array.dictionary != nullptr) {
    return Bad("its values are dictionary-encoded; decode them first");
  }
  if (array.length < 0 || array.length > kMostElements || array.offset < 0 ||
      array.offset > kMostElements || array.null_count < -1 || array.null_count > array.length) {
    return bad(fmt::format("length {}, offset {}, {} nulls", array.length, array.offset,
                           array.null_count));
  }
  if (array.length < elements) {
    return bad(fmt::format("{} elements where {} are needed", array.length, elements));
  }
  if (array.n_buffers != buffers || array.buffers == nullptr) {
    return bad(fmt::format("{} buffers instead of {}", array.n_buffers, buffers));
  }
  if (array.buffers[0] == nullptr && array.null_count > 0) return bad("nulls without a bitmap");
  if (buffers > 1 && array.buffers[1] == nullptr && array.length > 0) {
    return bad("a buffer is missing");
  }
  if (schema.n_children != children || array.n_children != children) {
    return bad(fmt::format("{} children in the type and {} in the array instead of {}",
                           schema.n_children, array.n_children, children));
  }
  for (std::int64_t i = 0; i < children; ++i) {
    if (schema.children == nullptr || schema.children[i] == nullptr || array.children == nullptr ||
        array.children[i] == nullptr) {
      return bad("a child is missing");
    }
  }
  return Status::Ok();
}

Result<Extent> Offsets::Check(Range range, std::int64_t limit) const {
  return wide_ ? CheckOffsets<std::int64_t>(data_, range, limit)
               : CheckOffsets<std::int32_t>(data_, range, limit);
}

}  // namespace tfos::arrow
