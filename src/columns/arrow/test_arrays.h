#ifndef TFOS_COLUMNS_ARROW_TEST_ARRAYS_H_
#define TFOS_COLUMNS_ARROW_TEST_ARRAYS_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "chunk/row_structure.h"
#include "columns/arrow/arrow_columns.h"

// Arrays as another library hands them over, and the chunks that ArrowColumns makes of them.

namespace tfos::columns {

inline void ReleaseSchema(ArrowSchema* schema) { schema->release = nullptr; }
inline void ReleaseArray(ArrowArray* array) { array->release = nullptr; }

/// An array as another library would hand it over. Every buffer is an allocation of its own and of
/// exactly the right size, so that AddressSanitizer sees a step outside.
class Foreign {
 public:
  Foreign(std::string format, std::int64_t length) : format_(std::move(format)) {
    array.length = length;
    AddBuffer(nullptr, 0);  // All valid.
  }
  Foreign(const Foreign&) = delete;
  Foreign& operator=(const Foreign&) = delete;

  template <typename T>
  Foreign& Add(const std::vector<T>& values) {
    AddBuffer(values.data(), values.size() * sizeof(T));
    return *this;
  }
  Foreign& AddBits(const std::vector<bool>& bits) {
    const std::vector<std::uint8_t> bytes = Packed(bits);
    AddBuffer(bytes.data(), bytes.size());
    return *this;
  }
  Foreign& Child(std::unique_ptr<Foreign> child) {
    children_.push_back(std::move(child));
    return *this;
  }
  Foreign& Named(std::string name) {
    name_ = std::move(name);
    return *this;
  }
  /// Marks elements, counted from the start of the buffers, as valid or not.
  Foreign& Valid(const std::vector<bool>& valid) {
    const std::vector<std::uint8_t> bytes = Packed(valid);
    buffers_[0].assign(bytes.begin(), bytes.end());
    array.null_count = -1;
    return *this;
  }
  Foreign& Slice(std::int64_t offset, std::int64_t length) {
    array.offset = offset;
    array.length = length;
    return *this;
  }

  std::size_t buffers() const { return buffers_.size(); }
  std::vector<std::uint8_t>& buffer(std::size_t index) { return buffers_[index]; }
  Foreign& child(std::size_t index) { return *children_[index]; }

  /// Points the structs at what this holds now.
  void Finish() {
    schema.format = format_.c_str();
    schema.name = name_.c_str();
    schema.flags = ARROW_FLAG_NULLABLE;
    schema.release = &ReleaseSchema;
    array.release = &ReleaseArray;
    pointers_.clear();
    for (const auto& buffer : buffers_) {
      pointers_.push_back(buffer.empty() ? nullptr : buffer.data());
    }
    array.n_buffers = static_cast<std::int64_t>(pointers_.size());
    array.buffers = pointers_.data();
    child_schemas_.clear();
    child_arrays_.clear();
    for (const auto& child : children_) {
      child->Finish();
      child_schemas_.push_back(&child->schema);
      child_arrays_.push_back(&child->array);
    }
    schema.n_children = array.n_children = static_cast<std::int64_t>(children_.size());
    schema.children = child_schemas_.data();
    array.children = child_arrays_.data();
  }

  ArrowSchema schema{};
  ArrowArray array{};

 private:
  static std::vector<std::uint8_t> Packed(const std::vector<bool>& bits) {
    std::vector<std::uint8_t> bytes((bits.size() + 7) / 8);
    for (std::size_t i = 0; i < bits.size(); ++i) {
      bytes[i / 8] = static_cast<std::uint8_t>(bytes[i / 8] | (bits[i] ? 1 << (i % 8) : 0));
    }
    return bytes;
  }
  void AddBuffer(const void* data, std::size_t bytes) {
    const auto* from = static_cast<const std::uint8_t*>(data);
    buffers_.emplace_back(from, from + bytes);
  }

  std::string format_;
  std::string name_;
  std::deque<std::vector<std::uint8_t>> buffers_;
  std::vector<const void*> pointers_;
  std::vector<std::unique_ptr<Foreign>> children_;
  std::vector<ArrowSchema*> child_schemas_;
  std::vector<ArrowArray*> child_arrays_;
};

using ForeignPtr = std::unique_ptr<Foreign>;

inline ForeignPtr New(std::string format, std::size_t length) {
  return std::make_unique<Foreign>(std::move(format), static_cast<std::int64_t>(length));
}

template <typename T>
ForeignPtr Numbers(std::string format, const std::vector<T>& values) {
  ForeignPtr array = New(std::move(format), values.size());
  array->Add(values);
  return array;
}

inline ForeignPtr Bools(const std::vector<bool>& values) {
  ForeignPtr array = New("b", values.size());
  array->AddBits(values);
  return array;
}

template <typename Offset>
ForeignPtr Strings(std::string format, const std::vector<std::string>& values) {
  ForeignPtr array = New(std::move(format), values.size());
  std::vector<Offset> offsets = {0};
  std::vector<char> data;
  for (const std::string& value : values) {
    data.insert(data.end(), value.begin(), value.end());
    offsets.push_back(static_cast<Offset>(data.size()));
  }
  array->Add(offsets).Add(data);
  return array;
}

template <typename Offset>
ForeignPtr Lists(std::string format, const std::vector<Offset>& offsets, ForeignPtr child) {
  ForeignPtr array = New(std::move(format), offsets.size() - 1);
  array->Add(offsets).Child(std::move(child));
  return array;
}

inline ForeignPtr FixedLists(std::size_t lists, int length, ForeignPtr child) {
  ForeignPtr array = New("+w:" + std::to_string(length), lists);
  array->Child(std::move(child));
  return array;
}

/// Vectors of Spark ML.
inline ForeignPtr Vectors(const std::vector<std::int8_t>& types,
                          const std::vector<std::int32_t>& sizes,
                          const std::vector<std::int32_t>& index_offsets,
                          const std::vector<std::int32_t>& indices,
                          const std::vector<std::int32_t>& value_offsets,
                          const std::vector<double>& values) {
  ForeignPtr array = New("+s", types.size());
  ForeignPtr type = Numbers("c", types);
  type->Named("type");
  ForeignPtr size = Numbers("i", sizes);
  size->Named("size");
  ForeignPtr index_lists = Lists("+l", index_offsets, Numbers("i", indices));
  index_lists->Named("indices");
  ForeignPtr value_lists = Lists("+l", value_offsets, Numbers("g", values));
  value_lists->Named("values");
  array->Child(std::move(type)).Child(std::move(size));
  array->Child(std::move(index_lists)).Child(std::move(value_lists));
  return array;
}

/// A record batch of one column, x.
inline ForeignPtr Batch(ForeignPtr column) {
  ForeignPtr batch = New("+s", static_cast<std::size_t>(column->array.length));
  column->Named("x");
  batch->Child(std::move(column));
  return batch;
}

/// A chunk and its parsed form.
struct Chunk {
  AlignedBuffer bytes;
  chunk::ChunkView view;
  chunk::RowNode root;

  const chunk::ColumnView& column(std::size_t index = 0) const { return view.columns()[index]; }

  template <typename T>
  std::vector<T> Value(std::size_t row, std::size_t index = 0) const {
    const std::span<const std::byte> from = column(index).Value(row);
    std::vector<T> values(from.size() / sizeof(T));
    if (!from.empty()) std::memcpy(values.data(), from.data(), from.size());
    return values;
  }
  std::string Text(std::size_t row, std::size_t index = 0) const {
    const std::vector<char> chars = Value<char>(row, index);
    return {chars.begin(), chars.end()};
  }
};

struct Rows {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::uint64_t number = 0;  // What messages call the first one.
};

inline Result<Chunk> Convert(Foreign& batch, Rows rows, Decimals decimals = Decimals::kRefuse) {
  batch.Finish();
  TFOS_ASSIGN_OR_RETURN(auto columns, ArrowColumns::Open(batch.schema, batch.array, decimals));
  TFOS_RETURN_IF_ERROR(columns->Plan(rows.begin, rows.end, rows.number));
  AlignedBuffer bytes(columns->bytes());
  TFOS_RETURN_IF_ERROR(columns->Fill(bytes.bytes()));
  TFOS_ASSIGN_OR_RETURN(chunk::ChunkView view, chunk::ChunkView::Parse(bytes.bytes()));
  TFOS_ASSIGN_OR_RETURN(chunk::RowNode root, chunk::ParseRowStructure(view));
  return Chunk{std::move(bytes), std::move(view), std::move(root)};
}

inline Result<Chunk> Convert(Foreign& batch, Decimals decimals = Decimals::kRefuse) {
  return Convert(batch, {0, static_cast<std::size_t>(batch.array.length)}, decimals);
}

/// All rows of a column that is expected to be convertible.
inline Chunk ConvertColumn(ForeignPtr column, Decimals decimals = Decimals::kRefuse) {
  const ForeignPtr batch = Batch(std::move(column));
  Result<Chunk> chunk = Convert(*batch, decimals);
  EXPECT_TRUE(chunk.ok()) << chunk.status().ToString();
  return std::move(chunk).value();
}

inline std::string ErrorOf(ForeignPtr column) {
  const ForeignPtr batch = Batch(std::move(column));
  const Result<Chunk> chunk = Convert(*batch);
  if (chunk.ok()) return "no error";
  EXPECT_EQ(chunk.status().kind(), ErrorKind::kBadInput);
  return chunk.status().ToString();
}

inline void ExpectShape(const Chunk& chunk, chunk::RowNodeKind kind, chunk::DType dtype,
                        const std::vector<std::uint64_t>& shape) {
  ASSERT_EQ(chunk.root.kind, chunk::RowNodeKind::kSparkRow);
  EXPECT_EQ(chunk.root.fields, chunk::RowFields::kList);
  EXPECT_EQ(chunk.root.keys, std::vector<std::string>{"x"});
  EXPECT_EQ(chunk.root.children[0].kind, kind);
  EXPECT_EQ(chunk.column().name, "x");
  EXPECT_EQ(chunk.column().dtype, dtype);
  EXPECT_EQ(chunk.column().shape, shape);
}

}  // namespace tfos::columns

#endif  // TFOS_COLUMNS_ARROW_TEST_ARRAYS_H_
