#ifndef TFOS_PYTHON_CODEC_ROW_ENCODER_H_
#define TFOS_PYTHON_CODEC_ROW_ENCODER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "chunk/chunk.h"
#include "chunk/row_structure.h"
#include "python/codec/pickle_fallback.h"
#include "python/objects/numpy_types.h"
#include "python/objects/python_object.h"

namespace tfos::python {

/// A node of the row structure while it is being written: RowNode with what the inner loops need.
struct EncodeNode {
  chunk::RowNodeKind kind = chunk::RowNodeKind::kNone;
  chunk::RowFields fields = chunk::RowFields::kList;
  std::size_t column = 0;
  chunk::DType dtype = chunk::DType::kNone;
  bool ragged = false;     ///< Lists, tuples or arrays of different lengths; strings in those.
  std::size_t length = 0;  ///< Of one value of those, unless ragged.
  bool text = false;       ///< kText, and kStringList of str.
  std::vector<std::uint64_t> shape;  ///< kNumpyArray.
  std::vector<nb::object> keys;      ///< kDict and kSparkRow.
  std::vector<EncodeNode> children;
};

/// Turns Python rows into a chunk: as columns when all rows have one structure of types that come
/// back exactly, otherwise as one pickle.
///
///   encoder.Plan(rows, begin, end);
///   do { room = memory for encoder.bytes() bytes; } while (!encoder.Fill(room));
///
/// Where rows may not be pickles, those without columns are bad input, and arrays need not come
/// back exactly: read-only ones come back writable, and all in C order.
///
/// Owner and lifetime: between Plan and Fill it refers to the list, which it keeps alive.
/// Threads: one at a time, with the GIL. The GIL may be released between the calls; rows that
/// another thread changes meanwhile are noticed.
/// Errors: throws nb::python_error, with what pickle raised when a row cannot be pickled, and
/// BadInputError for rows that would need to be.
class RowEncoder {
 public:
  /// Of arrays, whether all of them is kept or the values alone, for a reader that wants no more.
  enum class Arrays { kExact, kValues };

  explicit RowEncoder(bool pickles = true, Arrays arrays = Arrays::kExact)
      : pickles_(pickles), exact_arrays_(pickles && arrays == Arrays::kExact) {}

  /// Plans a chunk of rows [begin, end) of `rows`.
  void Plan(nb::list rows, std::size_t begin, std::size_t end);

  /// The same, unless the rows have no columns: then false, and nothing is planned.
  bool PlanIfColumnar(nb::list rows, std::size_t begin, std::size_t end);

  /// The same of values that make up one column of rows, not whole rows: then a list of strings is
  /// one value, where a row that is such a list has a column for each.
  bool PlanColumn(nb::list values, std::size_t begin, std::size_t end);

  /// Whether the planned chunk has columns; else it is a pickle.
  bool columnar() const { return columnar_; }

  /// Bytes that the planned chunk needs.
  std::uint64_t bytes() const { return columnar_ ? builder_->bytes() : pickled_.bytes(); }

  /// Writes the planned chunk to the front of `out`, which holds at least `bytes()`.
  /// False: the rows turned out to differ after all. The chunk has been planned anew, with other
  /// `bytes()`; get room for it and call Fill again.
  bool Fill(std::span<std::byte> out);

 private:
  using Values = std::span<PyObject* const>;
  using Columns = std::vector<std::vector<PyObject*>>;

  /// Plans a pickle, or throws where that may not be.
  void PlanPickle();
  /// Why the rows have no columns: which field of them, and which type it is, as a clause: "field
  /// 'x' of a row is a set". It looks at the rows anew, slowly, for a message alone.
  std::string WhyNoColumns() const;
  bool PlanAtDepth(nb::list rows, std::size_t begin, std::size_t end, int depth);
  bool PlanColumnar(int depth);
  bool PlanNode(Values values, int depth, EncodeNode& node);
  bool PlanStrings(Values values, EncodeNode& node);
  bool PlanStringLists(Values values, EncodeNode& node);
  bool PlanSequence(Values values, int depth, EncodeNode& node);
  bool PlanDict(Values values, int depth, EncodeNode& node);
  bool PlanSparkRow(Values values, int depth, EncodeNode& node);
  bool PlanNumpy(Values values, EncodeNode& node);
  bool PlanArrays(Values values, EncodeNode& node);
  bool PlanChildren(Values values, std::size_t children, int depth, EncodeNode& node);
  void AddColumn(chunk::ColumnSpec spec, EncodeNode& node);

  bool FillNode(Values values, const EncodeNode& node);
  bool FillChildren(Values values, const EncodeNode& node);
  bool FillStrings(Values values, const EncodeNode& node);
  bool FillStringLists(Values values, const EncodeNode& node);
  bool FillNumbers(Values values, const EncodeNode& node);
  bool FillArrays(Values values, const EncodeNode& node);
  bool FillNumpyScalars(Values values, const EncodeNode& node);

  /// Takes the parts of every value apart: columns[child][value]. False when one differs from
  /// what `node` says.
  bool Gather(Values values, const EncodeNode& node, Columns& columns);

  /// NumPy's types, if the program has imported NumPy; without it no row can hold any.
  const NumpyTypes* numpy();
  /// pyspark.sql.Row likewise; null without it.
  PyTypeObject* spark_row();

  const bool pickles_;
  const bool exact_arrays_;
  nb::list rows_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::optional<chunk::ChunkBuilder> builder_;
  bool columnar_ = false;
  EncodeNode root_;
  std::vector<chunk::ColumnSpec> specs_;  ///< Of the columns found so far.
  PickleFallback pickled_;                ///< Planned, unless columnar.
  std::optional<NumpyTypes> numpy_;
  nb::object spark_row_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_CODEC_ROW_ENCODER_H_
