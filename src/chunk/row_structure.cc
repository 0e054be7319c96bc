#include "chunk/row_structure.h"

#include <algorithm>

#include "base/format.h"
#include "base/memory/bytes.h"
#include "chunk/layout.h"

namespace tfos::chunk {
namespace {

Status Bad(std::string what) {
  return Status(ErrorKind::kBadInput, fmt::format("not a valid row structure: {}", what));
}

bool HasChildren(RowNodeKind kind) {
  return kind >= RowNodeKind::kList && kind <= RowNodeKind::kSparkRow;
}

bool HasKeys(RowNodeKind kind) {
  return kind == RowNodeKind::kDict || kind == RowNodeKind::kSparkRow;
}

std::uint64_t NodesIn(const RowNode& node) {
  std::uint64_t nodes = 1;
  for (const RowNode& child : node.children) nodes += NodesIn(child);
  return nodes;
}

bool IsScalar(const ColumnView& column, DType dtype) {
  return column.encoding == ColumnEncoding::kTensor && column.shape.empty() &&
         column.dtype == dtype;
}

bool IsNumberSequence(const ColumnView& column) {
  const bool number = column.dtype == DType::kBool || column.dtype == DType::kInt64 ||
                      column.dtype == DType::kFloat64;
  const bool sequence = column.encoding == ColumnEncoding::kRagged ||
                        (column.encoding == ColumnEncoding::kTensor && column.shape.size() == 1);
  return number && sequence;
}

/// True when `column` is of the sort that a node of `kind` takes.
bool Fits(RowNodeKind kind, const ColumnView& column) {
  switch (kind) {
    case RowNodeKind::kBool:
      return IsScalar(column, DType::kBool);
    case RowNodeKind::kInt:
      return IsScalar(column, DType::kInt64);
    case RowNodeKind::kFloat:
      return IsScalar(column, DType::kFloat64);
    case RowNodeKind::kText:
      return column.encoding == ColumnEncoding::kText && column.shape.empty();
    case RowNodeKind::kBytes:
      return column.encoding == ColumnEncoding::kBytes && column.shape.empty();
    case RowNodeKind::kNumpyScalar:
      return column.encoding == ColumnEncoding::kTensor && column.shape.empty();
    case RowNodeKind::kNumpyArray:
      return column.encoding == ColumnEncoding::kTensor;
    case RowNodeKind::kNumpyRagged:
      return column.encoding == ColumnEncoding::kRagged;
    case RowNodeKind::kStringList:
      return HoldsStrings(column.encoding) && (IsRagged(column.encoding) || !column.shape.empty());
    case RowNodeKind::kNumberList:
    case RowNodeKind::kNumberTuple:
      return IsNumberSequence(column);
    case RowNodeKind::kNone:
    case RowNodeKind::kList:
    case RowNodeKind::kTuple:
    case RowNodeKind::kDict:
    case RowNodeKind::kSparkRow:
      return false;
  }
  return false;
}

/// Reads the nodes of one chunk from front to back.
class Parser {
 public:
  explicit Parser(const ChunkView& chunk) : columns_(chunk.columns()), left_(chunk.structure()) {}

  Result<RowNode> ParseAll() {
    TFOS_ASSIGN_OR_RETURN(RowNode root, ParseNode(0));
    if (left_.left() != 0) return Bad("bytes follow the last node");
    if (next_column_ != columns_.size()) return Bad("a column belongs to no node");
    return root;
  }

 private:
  Result<RowNode> ParseNode(int depth) {
    if (depth >= kMaxRowDepth) return Bad("nested too deeply");
    TFOS_ASSIGN_OR_RETURN(const auto code, Take<std::uint8_t>());
    if (code > static_cast<std::uint8_t>(RowNodeKind::kStringList)) {
      return Bad(fmt::format("code {} does not exist", code));
    }
    RowNode node;
    node.kind = static_cast<RowNodeKind>(code);
    if (TakesColumn(node.kind)) {
      if (next_column_ == columns_.size()) return Bad("more nodes than columns");
      node.column = next_column_++;
      if (!Fits(node.kind, columns_[node.column])) {
        return Bad(
            fmt::format("column {} is not of the sort that node {} takes", node.column, code));
      }
    }
    if (HasChildren(node.kind)) TFOS_RETURN_IF_ERROR(ParseChildren(depth, node));
    return node;
  }

  Status ParseChildren(int depth, RowNode& node) {
    if (node.kind == RowNodeKind::kSparkRow) {
      TFOS_ASSIGN_OR_RETURN(const auto fields, Take<std::uint8_t>());
      if (fields > static_cast<std::uint8_t>(RowFields::kRow)) return Bad("unknown sort of Row");
      node.fields = static_cast<RowFields>(fields);
    }
    TFOS_ASSIGN_OR_RETURN(const auto count, Take<std::uint32_t>());
    // Every child has at least its code, which bounds what wrong counts can make us allocate.
    announced_ += count;
    if (announced_ > left_.left()) return Bad("more children than bytes");
    node.children.reserve(count);
    for (std::uint32_t i = 0; i < count; ++i) {
      --announced_;
      if (HasKeys(node.kind)) {
        TFOS_ASSIGN_OR_RETURN(const auto length, Take<std::uint32_t>());
        if (length > left_.left()) return Bad("a key is cut off");
        node.keys.push_back(left_.TakeText(length));
      }
      TFOS_ASSIGN_OR_RETURN(RowNode child, ParseNode(depth + 1));
      node.children.push_back(std::move(child));
    }
    return Status::Ok();
  }

  template <typename T>
  Result<T> Take() {
    if (left_.left() < sizeof(T)) return Bad("cut off");
    return left_.Take<T>();
  }

  const std::vector<ColumnView>& columns_;
  ByteReader left_;
  std::size_t next_column_ = 0;
  std::uint64_t announced_ = 0;  ///< Children that are to come, of all levels.
};

}  // namespace

bool TakesColumn(RowNodeKind kind) { return kind != RowNodeKind::kNone && !HasChildren(kind); }

void AppendRowStructure(const RowNode& node, std::string& out) {
  out.push_back(static_cast<char>(node.kind));
  if (!HasChildren(node.kind)) return;
  if (node.kind == RowNodeKind::kSparkRow) out.push_back(static_cast<char>(node.fields));
  AppendBytes(static_cast<std::uint32_t>(node.children.size()), out);
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    if (HasKeys(node.kind)) {
      AppendBytes(static_cast<std::uint32_t>(node.keys[i].size()), out);
      out += node.keys[i];
    }
    AppendRowStructure(node.children[i], out);
  }
}

Result<RowNode> ParseRowStructure(const ChunkView& chunk) {
  if (chunk.kind() != ChunkKind::kColumnar) return Bad("the chunk is not columnar");
  return Parser(chunk).ParseAll();
}

bool CanAllBeObjects(const RowNode& structure, std::uint64_t rows, std::uint64_t bytes) {
  constexpr std::uint64_t kMostWithFewBytes = std::uint64_t{1} << 24;
  constexpr std::uint64_t kMostPerByte = 8;
  const std::uint64_t most = std::max(kMostWithFewBytes, CappedProduct(bytes, kMostPerByte));
  return CappedProduct(rows, NodesIn(structure)) <= most;
}

}  // namespace tfos::chunk
