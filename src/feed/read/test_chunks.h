#ifndef TFOS_FEED_READ_TEST_CHUNKS_H_
#define TFOS_FEED_READ_TEST_CHUNKS_H_

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "chunk/chunk.h"
#include "chunk/row_structure.h"
#include "feed/read/batch_reader.h"

// Columnar chunks for tests, whose values are made of the numbers of their rows.

namespace tfos::feed {

inline chunk::RowNode Node(chunk::RowNodeKind kind, std::vector<chunk::RowNode> children = {},
                           std::vector<std::string> keys = {}) {
  chunk::RowNode node;
  node.kind = kind;
  node.keys = std::move(keys);
  node.children = std::move(children);
  return node;
}

/// A column whose values are made of the row's number.
struct TestColumn {
  chunk::RowNodeKind kind;
  chunk::DType dtype = chunk::DType::kNone;
  std::vector<std::uint64_t> shape = {};
  bool ragged = false;  ///< Row n has n % 3 elements; otherwise those of its shape.
  std::string name = {};
};

/// Row n of a tensor holds n, n + 0.5, n + 1, ...; of strings "n" n % 4 times over; of lists of
/// strings those of n, n + 1, ...
template <typename T>
T Element(std::uint64_t row, std::uint64_t index) {
  return static_cast<T>(static_cast<double>(row) + static_cast<double>(index) / 2);
}

inline std::string Text(std::uint64_t row) {
  std::string text;
  for (std::uint64_t i = 0; i < row % 4; ++i) text += std::to_string(row);
  return text;
}

inline std::uint64_t ElementsIn(const TestColumn& column, std::uint64_t row) {
  return column.ragged ? row % 3
                       : std::accumulate(column.shape.begin(), column.shape.end(), std::uint64_t{1},
                                         std::multiplies<>());
}

inline bool HoldsTexts(const TestColumn& column) {
  return column.kind == chunk::RowNodeKind::kText || column.kind == chunk::RowNodeKind::kStringList;
}

/// Lists without items take no column.
inline bool IsEmptyLists(const TestColumn& column) { return !chunk::TakesColumn(column.kind); }

inline std::vector<std::string> Texts(const TestColumn& column, std::uint64_t row) {
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < ElementsIn(column, row); ++i) texts.push_back(Text(row + i));
  return texts;
}

inline void StoreElements(chunk::DType dtype, std::uint64_t row, std::uint64_t count,
                          std::byte*& to) {
  for (std::uint64_t i = 0; i < count; ++i, to += chunk::DTypeBytes(dtype)) {
    if (dtype == chunk::DType::kFloat32) {
      Store(Element<float>(row, i), to);
    } else {
      Store(Element<std::int64_t>(row, i), to);
    }
  }
}

/// A chunk of the rows [first, first + count). `root_kind` kNone: the only column is the row
/// itself.
inline std::vector<std::byte> MakeChunk(std::vector<TestColumn> columns, std::uint64_t first,
                                        std::uint64_t count,
                                        chunk::RowNodeKind root_kind = chunk::RowNodeKind::kTuple) {
  chunk::RowNode root = Node(root_kind);
  for (const TestColumn& column : columns) {
    root.children.push_back(Node(column.kind));
    if (root_kind == chunk::RowNodeKind::kDict) root.keys.push_back(column.name);
  }
  std::string structure;
  chunk::AppendRowStructure(root_kind == chunk::RowNodeKind::kNone ? root.children.at(0) : root,
                            structure);
  chunk::ChunkBuilder builder(chunk::ChunkKind::kColumnar, static_cast<std::int64_t>(count),
                              structure);
  std::erase_if(columns, IsEmptyLists);
  for (const TestColumn& column : columns) {
    chunk::ColumnSpec spec;
    spec.values = count;
    spec.name = root_kind == chunk::RowNodeKind::kDict ? "" : column.name;
    spec.dtype = column.dtype;
    if (HoldsTexts(column)) {
      spec.encoding =
          column.ragged ? chunk::ColumnEncoding::kRaggedText : chunk::ColumnEncoding::kText;
      spec.shape = column.shape;
      for (std::uint64_t row = first; row < first + count; ++row) {
        for (const std::string& text : Texts(column, row)) {
          ++spec.strings;
          spec.data_bytes += text.size();
        }
      }
    } else if (column.ragged) {
      spec.encoding = chunk::ColumnEncoding::kRagged;
      for (std::uint64_t row = first; row < first + count; ++row) {
        spec.data_bytes += row % 3 * chunk::DTypeBytes(column.dtype);
      }
    } else {
      spec.shape = column.shape;
    }
    builder.AddColumn(std::move(spec));
  }
  std::vector<std::byte> bytes(builder.Plan().value());
  EXPECT_TRUE(builder.Begin(bytes).ok());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const TestColumn& column = columns[i];
    std::byte* const start = builder.data(i).data();
    std::byte* to = start;
    std::uint64_t strings = 0;
    for (std::uint64_t row = first; row < first + count; ++row) {
      if (HoldsTexts(column)) {
        for (const std::string& text : Texts(column, row)) {
          std::memcpy(to, text.data(), text.size());
          to += text.size();
          builder.SetStringBoundary(i, ++strings, static_cast<std::uint64_t>(to - start));
        }
        if (column.ragged) builder.SetBoundary(i, row - first + 1, strings);
      } else if (column.ragged) {
        StoreElements(column.dtype, row, row % 3, to);
        builder.SetBoundary(
            i, row - first + 1,
            static_cast<std::uint64_t>(to - start) / chunk::DTypeBytes(column.dtype));
      } else {
        StoreElements(column.dtype, row, ElementsIn(column, row), to);
      }
    }
  }
  return bytes;
}

template <typename T>
std::vector<T> Numbers(const columns::HeldBytes& held) {
  std::vector<T> numbers(held.bytes.size() / sizeof(T));
  if (!numbers.empty()) std::memcpy(numbers.data(), held.bytes.data(), held.bytes.size());
  return numbers;
}

}  // namespace tfos::feed

#endif  // TFOS_FEED_READ_TEST_CHUNKS_H_
