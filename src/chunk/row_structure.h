#ifndef TFOS_CHUNK_ROW_STRUCTURE_H_
#define TFOS_CHUNK_ROW_STRUCTURE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "chunk/chunk.h"
#include "tfos/status.h"

namespace tfos::chunk {

inline constexpr int kMaxRowDepth = 64;

/// What a node of the row structure is; the numbers are those of docs/formats/chunk.md.
enum class RowNodeKind : std::uint8_t {
  kNone = 0,
  kBool = 1,
  kInt = 2,
  kFloat = 3,
  kText = 4,
  kBytes = 5,
  kNumpyScalar = 6,
  kNumpyArray = 7,
  kList = 8,
  kTuple = 9,
  kDict = 10,
  kSparkRow = 11,
  kNumberList = 12,  ///< A list of only bool, int or float, as the column's dtype says.
  kNumberTuple = 13,
  kNumpyRagged = 14,  ///< A NumPy array of one dimension, of another length in every row.
  kStringList = 15,   ///< A list of only str or only bytes; of lists of them, as the shape says.
};

/// True for a node that takes a column of its own.
bool TakesColumn(RowNodeKind kind);

/// How a Spark Row keeps its `__fields__`.
enum class RowFields : std::uint8_t { kList = 0, kRow = 1 };

/// One node of the tree that describes how columns make up a row.
///
/// Owner and lifetime: a value that owns its children. Threads: as any value.
struct RowNode {
  RowNodeKind kind = RowNodeKind::kNone;
  RowFields fields = RowFields::kList;  ///< kSparkRow only.
  std::size_t column = 0;               ///< Number of the column, if the node takes one.
  std::vector<std::string> keys;        ///< One a child, in UTF-8; kDict and kSparkRow only.
  std::vector<RowNode> children;
};

/// Appends `node` to `out` as the format has it. Columns are implied by preorder.
void AppendRowStructure(const RowNode& node, std::string& out);

/// Reads the row structure of a columnar chunk and checks it against the columns: every node that
/// takes a column has one of its encoding, dtype and rank, and no column is left.
/// Errors: kBadInput.
Result<RowNode> ParseRowStructure(const ChunkView& chunk);

/// Whether a reader may make objects of all rows of a chunk of `bytes` at once. Without a limit, a
/// few bytes could claim rows beyond all memory: None and empty values take no bytes.
bool CanAllBeObjects(const RowNode& structure, std::uint64_t rows, std::uint64_t bytes);

}  // namespace tfos::chunk

#endif  // TFOS_CHUNK_ROW_STRUCTURE_H_
