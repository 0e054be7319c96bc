#include "columns/arrow/arrow_columns.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "chunk/row_structure.h"

namespace tfos::columns {
namespace {

// Arrays are far below this, so that sums and products of a few lengths cannot overflow.
constexpr std::int64_t kMaxLength = std::int64_t{1} << 48;
constexpr int kMaxDecimalScale = 38;

/// Positions in the buffers of one array: its offset is included.
struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;

  std::uint64_t size() const { return end - begin; }
  Range Shifted(std::int64_t by) const {
    return {begin + static_cast<std::uint64_t>(by), end + static_cast<std::uint64_t>(by)};
  }
};

/// What messages call a column.
struct ColumnId {
  std::string name;
  std::string format;  ///< Arrow's text for its type.

  Status Bad(std::string_view what) const {
    return Status(ErrorKind::kBadInput,
                  fmt::format("column {} of the Arrow type '{}': {}", name, format, what));
  }
  Status Null(std::uint64_t row) const {
    return Status(ErrorKind::kBadInput,
                  fmt::format("column {} has a null in row {}; fill or drop it first", name, row));
  }
};

std::string_view FormatOf(const ArrowSchema& schema) {
  return schema.format == nullptr ? std::string_view() : std::string_view(schema.format);
}

/// Checks that an array is built as its type wants: that many buffers and children, and at least
/// `elements` elements.
Status CheckArray(const ColumnId& id, const ArrowSchema& schema, const ArrowArray& array,
                  std::int64_t buffers, std::int64_t children, std::int64_t elements) {
  const auto bad = [&](std::string_view what) {
    return id.Bad(fmt::format("not a valid array of '{}': {}", FormatOf(schema), what));
  };
  if (schema.dictionary != nullptr || array.dictionary != nullptr) {
    return id.Bad("a chunk cannot hold dictionary-encoded values; decode them first");
  }
  if (array.length < 0 || array.length > kMaxLength || array.offset < 0 ||
      array.offset > kMaxLength || array.null_count < -1 || array.null_count > array.length) {
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

bool Bit(const void* bitmap, std::uint64_t position) {
  return (static_cast<const std::uint8_t*>(bitmap)[position / 8] >> (position % 8) & 1) != 0;
}

/// The position of the first null of `array` in `range`, if there is one.
std::optional<std::uint64_t> FindNull(const ArrowArray& array, Range range) {
  const auto* validity = static_cast<const std::uint8_t*>(array.buffers[0]);
  if (validity == nullptr || array.null_count == 0) return std::nullopt;
  for (std::uint64_t i = range.begin; i < range.end;) {
    if (i % 8 == 0 && range.end - i >= 8 && validity[i / 8] == 0xFF) {
      i += 8;
    } else if (!Bit(validity, i)) {
      return i;
    } else {
      ++i;
    }
  }
  return std::nullopt;
}

/// Where the elements of a range of lists lie, and whether all lists have one length.
struct Extent {
  Range range;
  bool same_length = true;
  std::uint64_t length = 0;
};

/// The offsets of lists and strings: value i is what lies between offset i and i + 1.
class Offsets {
 public:
  Offsets() = default;
  Offsets(const ArrowArray& array, bool wide)
      : data_(static_cast<const std::byte*>(array.buffers[1])), wide_(wide) {}

  std::uint64_t operator[](std::uint64_t index) const {
    return static_cast<std::uint64_t>(Signed(index));
  }

  /// Checks the offsets of the values in `range`; they may not exceed `limit`.
  Result<Extent> Check(const ColumnId& id, Range range, std::int64_t limit) const {
    Extent extent;
    if (range.size() == 0) return extent;
    const std::int64_t first = Signed(range.begin);
    if (first < 0) return id.Bad(fmt::format("offset {} is negative", range.begin));
    std::int64_t last = first;
    for (std::uint64_t i = range.begin + 1; i <= range.end; ++i) {
      const std::int64_t next = Signed(i);
      if (next < last) return id.Bad(fmt::format("offset {} falls", i));
      const auto length = static_cast<std::uint64_t>(next - last);
      if (i == range.begin + 1) extent.length = length;
      extent.same_length = extent.same_length && length == extent.length;
      last = next;
    }
    if (last > limit) {
      return id.Bad(fmt::format("an offset is {} where {} elements are", last, limit));
    }
    extent.range = {static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last)};
    return extent;
  }

  /// Calls set(i, boundary) for the boundaries 1, 2, ... of the values in `range`.
  template <typename Set>
  void ForEachBoundary(Range range, Set set) const {
    const std::uint64_t first = (*this)[range.begin];
    for (std::uint64_t i = 1; i <= range.size(); ++i) set(i, (*this)[range.begin + i] - first);
  }

 private:
  std::int64_t Signed(std::uint64_t index) const {
    return wide_ ? chunk::LoadAt<std::int64_t>(data_ + index * sizeof(std::int64_t))
                 : chunk::LoadAt<std::int32_t>(data_ + index * sizeof(std::int32_t));
  }

  const std::byte* data_ = nullptr;
  bool wide_ = false;
};

/// The number after `prefix`, to the end of `format`; none if there is another text.
std::optional<std::int32_t> NumberAfter(std::string_view format, std::string_view prefix) {
  std::int32_t number = 0;
  const char* const end = format.data() + format.size();
  if (!format.starts_with(prefix)) return std::nullopt;
  const auto parsed = std::from_chars(format.data() + prefix.size(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0) return std::nullopt;
  return number;
}

/// The lists of a column, one inside the other, down to what they hold; none in a column of plain
/// values.
class Lists {
 public:
  /// Goes down from a column to what isn't a list, which `schema` and `array` then are. Of that the
  /// column's rows need at least `elements`.
  Status Open(const ColumnId& id, const ArrowSchema*& schema, const ArrowArray*& array,
              std::int64_t& elements) {
    while (true) {
      Level level{.array = array};
      const std::string_view format = FormatOf(*schema);
      const std::optional<std::int32_t> fixed_length = NumberAfter(format, "+w:");
      if (!fixed_length && format != "+l" && format != "+L") break;
      if (levels_.size() == chunk::kMaxTensorRank) {
        return id.Bad("lists are nested too deeply for a chunk");
      }
      TFOS_RETURN_IF_ERROR(CheckArray(id, *schema, *array, fixed_length ? 1 : 2, 1, elements));
      level.fixed = fixed_length.has_value();
      if (level.fixed) {
        level.length = static_cast<std::uint64_t>(*fixed_length);
      } else {
        level.offsets = Offsets(*array, format == "+L");
      }
      levels_.push_back(level);
      elements = 0;  // What the lists need of their child depends on the rows.
      schema = schema->children[0];
      array = array->children[0];
    }
    held_ = array;
    return Status::Ok();
  }

  bool none() const { return levels_.empty(); }

  /// Checks the lists of `rows` and looks for nulls, also in what they hold.
  Status Plan(const ColumnId& id, Range rows, std::uint64_t first_row) {
    bool same_length = true;
    shape_.clear();
    ranges_.assign(1, rows.Shifted(ArrayAt(0).offset));
    for (std::size_t depth = 0; depth < levels_.size(); ++depth) {
      TFOS_RETURN_IF_ERROR(CheckNullsAt(id, depth, first_row));
      TFOS_ASSIGN_OR_RETURN(const Extent extent, ExtentAt(id, depth));
      same_length = same_length && extent.same_length;
      shape_.push_back(extent.length);
      ranges_.push_back(extent.range.Shifted(ArrayAt(depth + 1).offset));
    }
    TFOS_RETURN_IF_ERROR(CheckNullsAt(id, levels_.size(), first_row));
    ragged_ = !same_length;
    if (!ragged_) return Status::Ok();
    if (levels_.size() > 1) {
      return id.Bad("lists inside lists have different lengths; pad them to one length");
    }
    shape_.clear();
    return Status::Ok();
  }

  // Of the planned rows.

  /// What they hold, as positions in its array.
  Range held() const { return ranges_.back(); }
  bool ragged() const { return ragged_; }
  /// Of the lists of each row; empty if they are ragged.
  const std::vector<std::uint64_t>& shape() const { return shape_; }

  void WriteBoundaries(std::size_t column, chunk::ChunkBuilder& builder) const {
    if (!ragged_) return;
    levels_[0].offsets.ForEachBoundary(ranges_[0], [&](std::uint64_t i, std::uint64_t boundary) {
      builder.SetBoundary(column, i, boundary);
    });
  }

 private:
  struct Level {
    const ArrowArray* array = nullptr;
    bool fixed = false;  ///< All lists have `length` elements; otherwise `offsets` say.
    std::uint64_t length = 0;
    Offsets offsets = {};
  };

  const ArrowArray& ArrayAt(std::size_t depth) const {
    return depth < levels_.size() ? *levels_[depth].array : *held_;
  }

  /// Where the elements of the planned lists at `depth` lie in the array below.
  Result<Extent> ExtentAt(const ColumnId& id, std::size_t depth) const {
    const Level& level = levels_[depth];
    const Range lists = ranges_[depth];
    const std::int64_t elements = ArrayAt(depth + 1).length;
    if (!level.fixed) return level.offsets.Check(id, lists, elements);
    if (level.length != 0 && lists.end > static_cast<std::uint64_t>(elements) / level.length) {
      return id.Bad(fmt::format("{} elements are too few for lists of {}", elements, level.length));
    }
    return Extent{.range = {lists.begin * level.length, lists.end * level.length},
                  .length = level.length};
  }

  Status CheckNullsAt(const ColumnId& id, std::size_t depth, std::uint64_t first_row) const {
    const auto null = FindNull(ArrayAt(depth), ranges_[depth]);
    return null ? id.Null(first_row + RowOf(depth, *null)) : Status::Ok();
  }

  /// The planned row, counted from 0, that holds the element at `position` of the array at `depth`.
  std::uint64_t RowOf(std::size_t depth, std::uint64_t position) const {
    for (; depth > 0; --depth) {
      const Level& above = levels_[depth - 1];
      const Range lists = ranges_[depth - 1];
      position -= static_cast<std::uint64_t>(ArrayAt(depth).offset);
      if (above.fixed) {
        position /= above.length;
        continue;
      }
      std::uint64_t list = lists.begin;
      while (above.offsets[list + 1] <= position) ++list;
      position = list;
    }
    return position - ranges_[0].begin;
  }

  std::vector<Level> levels_;  ///< The outermost first.
  const ArrowArray* held_ = nullptr;
  std::vector<Range> ranges_;  ///< Planned, of every level and of what they hold.
  std::vector<std::uint64_t> shape_;
  bool ragged_ = false;
};

/// How a type of numbers is laid out in Arrow, and what a chunk holds instead.
struct NumberType {
  enum class Layout { kSame, kBits, kDecimal128 };

  chunk::DType dtype = chunk::DType::kNone;
  Layout layout = Layout::kSame;
  int scale = 0;  ///< kDecimal128 only.
};

/// "d:precision,scale", perhaps with ",128" behind it.
std::optional<NumberType> ParseDecimal(std::string_view format) {
  if (!format.starts_with("d:")) return std::nullopt;
  if (format.ends_with(",128")) format.remove_suffix(4);
  const std::size_t comma = format.find(',');
  if (comma == std::string_view::npos) return std::nullopt;
  const auto scale = NumberAfter(format.substr(comma), ",");
  if (!scale || *scale > kMaxDecimalScale) return std::nullopt;
  return NumberType{chunk::DType::kFloat64, NumberType::Layout::kDecimal128, *scale};
}

/// Arrow's types that a chunk holds as they are.
constexpr std::pair<std::string_view, chunk::DType> kSameInBoth[] = {
    {"c", chunk::DType::kInt8},    {"C", chunk::DType::kUint8},   {"s", chunk::DType::kInt16},
    {"S", chunk::DType::kUint16},  {"i", chunk::DType::kInt32},   {"I", chunk::DType::kUint32},
    {"l", chunk::DType::kInt64},   {"L", chunk::DType::kUint64},  {"e", chunk::DType::kFloat16},
    {"f", chunk::DType::kFloat32}, {"g", chunk::DType::kFloat64}, {"tdD", chunk::DType::kInt32},
};

std::optional<NumberType> ParseNumberType(std::string_view format) {
  for (const auto& [text, dtype] : kSameInBoth) {
    if (format == text) return NumberType{dtype};
  }
  // Microseconds, in whatever time zone they are to be shown.
  if (format.starts_with("tsu:")) return NumberType{chunk::DType::kInt64};
  if (format == "b") return NumberType{chunk::DType::kBool, NumberType::Layout::kBits};
  return ParseDecimal(format);
}

using Int128 = __int128;

// A float64 holds these exactly.
constexpr std::int64_t kExactIntegers = std::int64_t{1} << 53;
constexpr std::array kExactPowers = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/// The float64 nearest to value / 10^scale.
double DecimalToDouble(Int128 value, int scale) {
  if (value >= -kExactIntegers && value <= kExactIntegers &&
      static_cast<std::size_t>(scale) < kExactPowers.size()) {
    // Both are exact, so that the division rounds once.
    return static_cast<double>(static_cast<std::int64_t>(value)) /
           kExactPowers[static_cast<std::size_t>(scale)];
  }
  const bool negative = value < 0;
  auto left = static_cast<unsigned __int128>(value);
  if (negative) left = 0 - left;
  std::string digits;
  do {
    digits.push_back(static_cast<char>('0' + static_cast<int>(left % 10)));
    left /= 10;
  } while (left != 0);
  if (negative) digits.push_back('-');
  std::reverse(digits.begin(), digits.end());
  digits += fmt::format("e-{}", scale);
  double result = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), result);
  return result;
}

/// The array of numbers of a column, or inside its lists.
struct Numbers {
  const ArrowArray* values = nullptr;
  NumberType type;

  static Result<Numbers> Open(const ColumnId& id, const ArrowSchema& schema,
                              const ArrowArray& array, std::int64_t elements, Decimals decimals) {
    const std::optional<NumberType> type = ParseNumberType(FormatOf(schema));
    if (!type) {
      return id.Bad(
          fmt::format("a chunk cannot hold '{}'; convert the column first", FormatOf(schema)));
    }
    if (type->layout == NumberType::Layout::kDecimal128 && decimals == Decimals::kRefuse) {
      return id.Bad("a chunk has no type for decimals; cast it or pass decimals=\"float64\"");
    }
    TFOS_RETURN_IF_ERROR(CheckArray(id, schema, array, 2, 0, elements));
    return Numbers{&array, *type};
  }

  /// Where they lie as Write would write them, or null.
  const std::byte* InPlace(Range range) const {
    if (type.layout != NumberType::Layout::kSame || range.size() == 0) return nullptr;
    return static_cast<const std::byte*>(values->buffers[1]) +
           range.begin * chunk::DTypeBytes(type.dtype);
  }

  void Write(Range range, std::byte* to) const {
    const auto* from = static_cast<const std::byte*>(values->buffers[1]);
    switch (type.layout) {
      case NumberType::Layout::kSame: {
        const std::size_t bytes = chunk::DTypeBytes(type.dtype);
        if (range.size() != 0) std::memcpy(to, from + range.begin * bytes, range.size() * bytes);
        return;
      }
      case NumberType::Layout::kBits:
        for (std::uint64_t i = range.begin; i < range.end; ++i) {
          *to++ = static_cast<std::byte>(Bit(from, i));
        }
        return;
      case NumberType::Layout::kDecimal128:
        for (std::uint64_t i = range.begin; i < range.end; ++i, to += sizeof(double)) {
          chunk::StoreAt(
              to, DecimalToDouble(chunk::LoadAt<Int128>(from + i * sizeof(Int128)), type.scale));
        }
        return;
    }
  }
};

}  // namespace

/// One column of the batch, in whatever layout Arrow has it.
class ArrowColumns::Column {
 public:
  /// `elements` is how many the rows need of the array.
  static Result<std::unique_ptr<Column>> Open(const ColumnId& id, const ArrowSchema& schema,
                                              const ArrowArray& array, std::int64_t elements,
                                              Decimals decimals);

  explicit Column(ColumnId id) : id_(std::move(id)) {}
  virtual ~Column() = default;

  const std::string& name() const { return id_.name; }

  /// Checks `rows`, counted from the first of the array, of which there is one at least. Sets in
  /// `spec` what depends on them, and returns the sort of node that the column makes in a row.
  virtual Result<chunk::RowNodeKind> Plan(Range rows, std::uint64_t first_row,
                                          chunk::ColumnSpec& spec) = 0;
  /// Writes the planned rows to column `index` of the chunk.
  virtual void Fill(chunk::ChunkBuilder& builder, std::size_t index) const = 0;
  /// Where the planned rows lie as Fill would write them, if they do; else null.
  virtual const std::byte* InPlace() const { return nullptr; }

 protected:
  const ColumnId id_;
};

/// Numbers, and lists of them at any depth.
class ArrowColumns::NumberColumn : public Column {
 public:
  /// `schema` and `array` are of what the lists hold.
  static Result<std::unique_ptr<Column>> Open(ColumnId id, Lists lists, const ArrowSchema& schema,
                                              const ArrowArray& array, std::int64_t elements,
                                              Decimals decimals) {
    auto column = std::make_unique<NumberColumn>(std::move(id));
    column->lists_ = std::move(lists);
    TFOS_ASSIGN_OR_RETURN(column->numbers_,
                          Numbers::Open(column->id_, schema, array, elements, decimals));
    return std::unique_ptr<Column>(std::move(column));
  }

  using Column::Column;

  Result<chunk::RowNodeKind> Plan(Range rows, std::uint64_t first_row,
                                  chunk::ColumnSpec& spec) override {
    TFOS_RETURN_IF_ERROR(lists_.Plan(id_, rows, first_row));
    spec.dtype = numbers_.type.dtype;
    spec.shape = lists_.shape();
    if (lists_.none()) return chunk::RowNodeKind::kNumpyScalar;
    if (!lists_.ragged()) return chunk::RowNodeKind::kNumpyArray;
    spec.encoding = chunk::ColumnEncoding::kRagged;
    spec.data_bytes = lists_.held().size() * chunk::DTypeBytes(spec.dtype);
    return chunk::RowNodeKind::kNumpyRagged;
  }

  void Fill(chunk::ChunkBuilder& builder, std::size_t index) const override {
    numbers_.Write(lists_.held(), builder.data(index).data());
    lists_.WriteBoundaries(index, builder);
  }

  const std::byte* InPlace() const override {
    return lists_.ragged() ? nullptr : numbers_.InPlace(lists_.held());
  }

 private:
  Lists lists_;
  Numbers numbers_;
};

/// Text and binary values of any length or of one, and lists of them at any depth.
class ArrowColumns::StringColumn : public Column {
 public:
  /// `schema` and `array` are of what the lists hold. Null when it is of another type.
  static Result<std::unique_ptr<Column>> Open(ColumnId id, const Lists& lists,
                                              const ArrowSchema& schema, const ArrowArray& array,
                                              std::int64_t elements) {
    const std::string_view format = FormatOf(schema);
    const std::optional<std::int32_t> fixed_bytes = NumberAfter(format, "w:");
    const bool text = format == "u" || format == "U";
    if (!fixed_bytes && !text && format != "z" && format != "Z") return std::unique_ptr<Column>();
    auto column = std::make_unique<StringColumn>(std::move(id));
    TFOS_RETURN_IF_ERROR(CheckArray(column->id_, schema, array, fixed_bytes ? 2 : 3, 0, elements));
    column->lists_ = lists;
    column->array_ = &array;
    column->text_ = text;
    column->fixed_ = fixed_bytes.has_value();
    if (column->fixed_) {
      column->bytes_ = static_cast<std::uint64_t>(*fixed_bytes);
    } else {
      column->offsets_ = Offsets(array, format == "U" || format == "Z");
    }
    return std::unique_ptr<Column>(std::move(column));
  }

  using Column::Column;

  Result<chunk::RowNodeKind> Plan(Range rows, std::uint64_t first_row,
                                  chunk::ColumnSpec& spec) override {
    TFOS_RETURN_IF_ERROR(lists_.Plan(id_, rows, first_row));
    const Range strings = lists_.held();
    if (fixed_) {
      data_ = {strings.begin * bytes_, strings.end * bytes_};
    } else {
      TFOS_ASSIGN_OR_RETURN(const Extent extent, offsets_.Check(id_, strings, kMaxLength));
      data_ = extent.range;
    }
    if (data_.size() != 0 && Data() == nullptr) return id_.Bad("the buffer of the data is missing");
    if (lists_.ragged()) {
      spec.encoding =
          text_ ? chunk::ColumnEncoding::kRaggedText : chunk::ColumnEncoding::kRaggedBytes;
      spec.strings = strings.size();
    } else {
      spec.encoding = text_ ? chunk::ColumnEncoding::kText : chunk::ColumnEncoding::kBytes;
      spec.shape = lists_.shape();
    }
    spec.data_bytes = data_.size();
    if (!lists_.none()) return chunk::RowNodeKind::kStringList;
    return text_ ? chunk::RowNodeKind::kText : chunk::RowNodeKind::kBytes;
  }

  void Fill(chunk::ChunkBuilder& builder, std::size_t index) const override {
    if (data_.size() != 0) {
      std::memcpy(builder.data(index).data(), Data() + data_.begin, data_.size());
    }
    lists_.WriteBoundaries(index, builder);
    const Range strings = lists_.held();
    if (strings.size() == 0) return;  // And perhaps no offset at all.
    if (!fixed_) {
      offsets_.ForEachBoundary(strings, [&](std::uint64_t i, std::uint64_t boundary) {
        builder.SetStringBoundary(index, i, boundary);
      });
      return;
    }
    for (std::uint64_t i = 1; i <= strings.size(); ++i) {
      builder.SetStringBoundary(index, i, i * bytes_);
    }
  }

 private:
  const std::byte* Data() const {
    return static_cast<const std::byte*>(array_->buffers[fixed_ ? 1 : 2]);
  }

  Lists lists_;
  const ArrowArray* array_ = nullptr;
  bool text_ = false;
  bool fixed_ = false;  ///< All values have `bytes_` bytes; otherwise `offsets_` say.
  std::uint64_t bytes_ = 0;
  Offsets offsets_;
  Range data_;  ///< Planned, in bytes.
};

/// Vectors of Spark ML, which are structs of type (0 sparse, 1 dense), size (sparse only), indices
/// (sparse only) and values.
class ArrowColumns::VectorColumn : public Column {
 public:
  /// Null when the type is another.
  static Result<std::unique_ptr<Column>> Open(ColumnId id, const ArrowSchema& schema,
                                              const ArrowArray& array, std::int64_t elements) {
    if (!IsVector(schema)) return std::unique_ptr<Column>();
    auto column = std::make_unique<VectorColumn>(std::move(id));
    TFOS_RETURN_IF_ERROR(CheckArray(column->id_, schema, array, 1, 4, elements));
    column->array_ = &array;
    const std::int64_t used = array.offset + array.length;
    for (std::size_t i : {kType, kSize}) {
      TFOS_RETURN_IF_ERROR(
          CheckArray(column->id_, *schema.children[i], *array.children[i], 2, 0, used));
    }
    for (auto [list, place] :
         {std::pair(&column->indices_, kIndices), std::pair(&column->values_, kValues)}) {
      const ArrowSchema& type = *schema.children[place];
      list->array = array.children[place];
      TFOS_RETURN_IF_ERROR(CheckArray(column->id_, type, *list->array, 2, 1, used));
      list->elements = list->array->children[0];
      TFOS_RETURN_IF_ERROR(CheckArray(column->id_, *type.children[0], *list->elements, 2, 0, 0));
      list->offsets = Offsets(*list->array, false);
    }
    return std::unique_ptr<Column>(std::move(column));
  }

  using Column::Column;

  Result<chunk::RowNodeKind> Plan(Range rows, std::uint64_t first_row,
                                  chunk::ColumnSpec& spec) override {
    rows_ = rows.Shifted(array_->offset);
    if (const auto null = FindNull(*array_, rows_)) {
      return id_.Null(first_row + (*null - rows_.begin));
    }
    for (const List* list : {&indices_, &values_}) {
      TFOS_ASSIGN_OR_RETURN(
          const Extent extent,
          list->offsets.Check(id_, rows_.Shifted(list->array->offset), list->elements->length));
      if (FindNull(*list->elements, extent.range.Shifted(list->elements->offset))) {
        return id_.Bad("a vector holds a null");
      }
    }
    boundaries_.assign(1, 0);
    bool same_size = true;
    for (std::uint64_t row = rows_.begin; row < rows_.end; ++row) {
      const std::optional<std::uint64_t> size = SizeOf(row);
      if (!size) {
        return id_.Bad(fmt::format("the vector in row {} is not one of Spark ML",
                                   first_row + (row - rows_.begin)));
      }
      boundaries_.push_back(boundaries_.back() + *size);
      if (boundaries_.back() > static_cast<std::uint64_t>(kMaxLength)) {
        return id_.Bad("the vectors are too large for a chunk");
      }
      same_size = same_size && *size == boundaries_[1];
    }
    spec.dtype = chunk::DType::kFloat64;
    ragged_ = !same_size;
    if (!ragged_) {
      spec.shape = {boundaries_[1]};
      return chunk::RowNodeKind::kNumpyArray;
    }
    spec.encoding = chunk::ColumnEncoding::kRagged;
    spec.data_bytes = boundaries_.back() * sizeof(double);
    return chunk::RowNodeKind::kNumpyRagged;
  }

  void Fill(chunk::ChunkBuilder& builder, std::size_t index) const override {
    const std::span<std::byte> data = builder.data(index);
    for (std::uint64_t i = 0; i < rows_.size(); ++i) {
      const std::uint64_t row = rows_.begin + i;
      std::byte* const to = data.data() + boundaries_[i] * sizeof(double);
      const Range values = values_.Of(row);
      if (TypeOf(row) == kDense) {
        if (values.size() != 0) {
          std::memcpy(to, values_.At<double>(values.begin), values.size() * sizeof(double));
        }
      } else {
        std::memset(to, 0, (boundaries_[i + 1] - boundaries_[i]) * sizeof(double));
        const Range indices = indices_.Of(row);
        for (std::uint64_t k = 0; k < indices.size(); ++k) {
          const auto place =
              chunk::LoadAt<std::int32_t>(indices_.At<std::int32_t>(indices.begin + k));
          std::memcpy(to + static_cast<std::uint64_t>(place) * sizeof(double),
                      values_.At<double>(values.begin + k), sizeof(double));
        }
      }
      if (ragged_) builder.SetBoundary(index, i + 1, boundaries_[i + 1]);
    }
  }

 private:
  enum Child : std::size_t { kType = 0, kSize = 1, kIndices = 2, kValues = 3 };
  static constexpr std::int8_t kSparse = 0;
  static constexpr std::int8_t kDense = 1;

  struct List {
    const ArrowArray* array = nullptr;
    const ArrowArray* elements = nullptr;
    Offsets offsets;

    /// The positions of the elements of the struct's row `row`.
    Range Of(std::uint64_t row) const {
      const std::uint64_t at = row + static_cast<std::uint64_t>(array->offset);
      return Range{offsets[at], offsets[at + 1]}.Shifted(elements->offset);
    }
    template <typename T>
    const std::byte* At(std::uint64_t position) const {
      return static_cast<const std::byte*>(elements->buffers[1]) + position * sizeof(T);
    }
  };

  /// Names and types of the children, in the order of Child.
  static constexpr std::pair<std::string_view, std::string_view> kChildren[] = {
      {"type", "c"}, {"size", "i"}, {"indices", "+l"}, {"values", "+l"}};

  static bool IsVector(const ArrowSchema& schema) {
    if (FormatOf(schema) != "+s" || schema.n_children != std::ssize(kChildren) ||
        schema.children == nullptr) {
      return false;
    }
    for (std::size_t i = 0; i < std::size(kChildren); ++i) {
      const ArrowSchema* child = schema.children[i];
      if (child == nullptr || child->name == nullptr || child->name != kChildren[i].first ||
          FormatOf(*child) != kChildren[i].second) {
        return false;
      }
    }
    return IsListOf(*schema.children[kIndices], "i") && IsListOf(*schema.children[kValues], "g");
  }

  static bool IsListOf(const ArrowSchema& list, std::string_view format) {
    return list.n_children == 1 && list.children != nullptr && list.children[0] != nullptr &&
           FormatOf(*list.children[0]) == format;
  }

  bool IsNull(const ArrowArray& child, std::uint64_t row) const {
    const Range one{row, row + 1};
    return FindNull(child, one.Shifted(child.offset)).has_value();
  }

  template <typename T>
  T ScalarOf(Child place, std::uint64_t row) const {
    const ArrowArray& child = *array_->children[place];
    return chunk::LoadAt<T>(static_cast<const std::byte*>(child.buffers[1]) +
                            (row + static_cast<std::uint64_t>(child.offset)) * sizeof(T));
  }
  std::int8_t TypeOf(std::uint64_t row) const { return ScalarOf<std::int8_t>(kType, row); }

  /// Of the vector in `row` of the struct; none when it is not a valid vector.
  std::optional<std::uint64_t> SizeOf(std::uint64_t row) const {
    if (IsNull(*array_->children[kType], row) || IsNull(*values_.array, row)) return std::nullopt;
    const Range values = values_.Of(row);
    if (TypeOf(row) == kDense) return values.size();
    if (TypeOf(row) != kSparse || IsNull(*array_->children[kSize], row) ||
        IsNull(*indices_.array, row)) {
      return std::nullopt;
    }
    const auto size = ScalarOf<std::int32_t>(kSize, row);
    const Range indices = indices_.Of(row);
    if (size < 0 || indices.size() != values.size()) return std::nullopt;
    for (std::uint64_t i = indices.begin; i < indices.end; ++i) {
      const auto place = chunk::LoadAt<std::int32_t>(indices_.At<std::int32_t>(i));
      if (place < 0 || place >= size) return std::nullopt;
    }
    return static_cast<std::uint64_t>(size);
  }

  const ArrowArray* array_ = nullptr;
  List indices_;
  List values_;
  Range rows_;                             ///< Planned.
  std::vector<std::uint64_t> boundaries_;  ///< Planned: of the vectors, in elements.
  bool ragged_ = false;
};

ArrowColumns::ArrowColumns() = default;
ArrowColumns::~ArrowColumns() = default;

Result<std::unique_ptr<ArrowColumns::Column>> ArrowColumns::Column::Open(const ColumnId& id,
                                                                         const ArrowSchema& schema,
                                                                         const ArrowArray& array,
                                                                         std::int64_t elements,
                                                                         Decimals decimals) {
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Column> column,
                        VectorColumn::Open(id, schema, array, elements));
  if (column) return column;
  Lists lists;
  const ArrowSchema* held_schema = &schema;
  const ArrowArray* held = &array;
  TFOS_RETURN_IF_ERROR(lists.Open(id, held_schema, held, elements));
  TFOS_ASSIGN_OR_RETURN(column, StringColumn::Open(id, lists, *held_schema, *held, elements));
  if (column) return column;
  return NumberColumn::Open(id, std::move(lists), *held_schema, *held, elements, decimals);
}

Result<std::unique_ptr<ArrowColumns>> ArrowColumns::Open(const ArrowSchema& schema,
                                                         const ArrowArray& batch,
                                                         Decimals decimals) {
  const ColumnId whole{.name = "(the record batch)", .format = std::string(FormatOf(schema))};
  if (schema.release == nullptr || batch.release == nullptr) {
    return whole.Bad("it was released before it was read");
  }
  if (whole.format != "+s") return whole.Bad("it is not a struct of columns");
  TFOS_RETURN_IF_ERROR(CheckArray(whole, schema, batch, 1, schema.n_children, 0));
  const Range all{0, static_cast<std::uint64_t>(batch.length)};
  if (FindNull(batch, all.Shifted(batch.offset))) return whole.Bad("a whole row of it is null");

  std::unique_ptr<ArrowColumns> columns(new ArrowColumns);
  columns->rows_ = static_cast<std::size_t>(batch.length);
  columns->offset_ = static_cast<std::uint64_t>(batch.offset);
  const std::int64_t elements = batch.offset + batch.length;
  for (std::int64_t i = 0; i < schema.n_children; ++i) {
    const ArrowSchema& type = *schema.children[i];
    const ArrowArray& array = *batch.children[i];
    const ColumnId id{.name = type.name == nullptr ? "" : type.name,
                      .format = std::string(FormatOf(type))};
    TFOS_ASSIGN_OR_RETURN(std::unique_ptr<Column> column,
                          Column::Open(id, type, array, elements, decimals));
    columns->columns_.push_back(std::move(column));
  }
  return columns;
}

Status ArrowColumns::Plan(std::size_t begin, std::size_t end, std::uint64_t first_row) {
  if (begin > end || end > rows_) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("rows [{}, {}) of a record batch of {}", begin, end, rows_));
  }
  // A chunk without rows has no columns.
  planned_rows_ = begin != end;
  chunk::RowNode root;
  specs_.clear();
  if (planned_rows_) {
    root.kind = chunk::RowNodeKind::kSparkRow;
    const Range rows{begin + offset_, end + offset_};
    for (const auto& column : columns_) {
      chunk::ColumnSpec spec;
      spec.values = rows.size();
      spec.name = column->name();
      chunk::RowNode node;
      TFOS_ASSIGN_OR_RETURN(node.kind, column->Plan(rows, first_row, spec));
      root.keys.push_back(column->name());
      root.children.push_back(std::move(node));
      specs_.push_back(std::move(spec));
    }
  }
  std::string structure;
  chunk::AppendRowStructure(root, structure);
  builder_.emplace(chunk::ChunkKind::kColumnar, static_cast<std::int64_t>(end - begin),
                   std::move(structure));
  for (const chunk::ColumnSpec& spec : specs_) builder_->AddColumn(spec);
  return builder_->Plan().status();
}

Status ArrowColumns::Fill(std::span<std::byte> out) {
  TFOS_RETURN_IF_ERROR(builder_->Begin(out));
  if (!planned_rows_) return Status::Ok();
  for (std::size_t i = 0; i < columns_.size(); ++i) columns_[i]->Fill(*builder_, i);
  return Status::Ok();
}

std::optional<std::vector<chunk::ColumnView>> ArrowColumns::InPlace() const {
  std::vector<chunk::ColumnView> views;
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    const chunk::ColumnSpec& spec = specs_[i];
    const std::byte* const data = columns_[i]->InPlace();
    if (data == nullptr || reinterpret_cast<std::uintptr_t>(data) % chunk::kChunkAlignment != 0) {
      return std::nullopt;
    }
    std::uint64_t value_elements = 1;
    for (const std::uint64_t size : spec.shape) value_elements *= size;  // Of memory that there is.
    const std::uint64_t value_bytes = value_elements * chunk::DTypeBytes(spec.dtype);
    views.push_back({.encoding = spec.encoding,
                     .dtype = spec.dtype,
                     .shape = spec.shape,
                     .name = columns_[i]->name(),
                     .values = spec.values,
                     .value_elements = value_elements,
                     .value_bytes = value_bytes,
                     .elements = spec.values * value_elements,
                     .data = {data, spec.values * value_bytes}});
  }
  return views;
}

}  // namespace tfos::columns
