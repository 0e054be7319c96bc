#ifndef TFOS_PYTHON_CODEC_ROW_DECODER_H_
#define TFOS_PYTHON_CODEC_ROW_DECODER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "chunk/chunk.h"
#include "chunk/row_structure.h"
#include "python/objects/numpy_types.h"
#include "python/objects/python_object.h"

namespace tfos::python {

/// A growing sequence of references, released on destruction. Needs the GIL.
class ObjectVector {
 public:
  ObjectVector() = default;
  /// `size` slots to be filled through data().
  explicit ObjectVector(std::size_t size) : objects_(size) {}
  ~ObjectVector();
  ObjectVector(ObjectVector&& other) noexcept : objects_(std::move(other.objects_)) {
    other.objects_.clear();
  }
  ObjectVector& operator=(ObjectVector&& other) noexcept {
    std::swap(objects_, other.objects_);
    return *this;
  }

  std::size_t size() const { return objects_.size(); }
  PyObject** data() { return objects_.data(); }
  /// Takes over a reference.
  void Append(nb::object object) { objects_.push_back(object.release().ptr()); }
  /// Moves all references of `other` to the end.
  void Append(ObjectVector&& other);
  /// Gives the reference in a slot away.
  PyObject* Take(std::size_t index) { return std::exchange(objects_[index], nullptr); }
  /// Moves the first `count` references, which it has, into a new list.
  nb::list TakeFront(std::size_t count);
  /// Releases the first `count` references, which it has.
  void DropFront(std::size_t count);
  /// Releases all references from number `size` on.
  void Truncate(std::size_t size);

 private:
  std::vector<PyObject*> objects_;
};

/// Keeps Python's cyclic garbage collector from walking over rows that are being built: they are
/// many, new and free of cycles. Needs the GIL.
class GarbageCollectionPause {
 public:
  GarbageCollectionPause() : was_enabled_(PyGC_Disable() != 0) {}
  ~GarbageCollectionPause() {
    if (was_enabled_) PyGC_Enable();
  }
  GarbageCollectionPause(const GarbageCollectionPause&) = delete;
  GarbageCollectionPause& operator=(const GarbageCollectionPause&) = delete;

 private:
  bool was_enabled_;
};

/// What the inner loops need of one node of the row structure.
struct DecodeNode {
  chunk::RowNodeKind kind = chunk::RowNodeKind::kNone;
  const chunk::ColumnView* column = nullptr;
  std::vector<nb::object> keys;  ///< kDict.
  nb::object fields;             ///< kSparkRow: what becomes `__fields__`.
  nb::object shape;              ///< kNumpyArray: a tuple.
  std::vector<DecodeNode> children;
};

/// Hands out the rows of one chunk, front to back, as Python objects.
///
/// Owner and lifetime: borrows the chunk's bytes. Rows that it has made are independent of them.
/// Threads: one at a time, with the GIL.
/// Errors: throws nb::python_error (also whatever unpickling raises), and BadInputError through
/// ThrowStatus for bytes that aren't a valid chunk.
class RowDecoder {
 public:
  /// Unless `pickles`, a chunk of pickles is bad input.
  explicit RowDecoder(std::span<const std::byte> chunk, bool pickles = true);
  RowDecoder(const RowDecoder&) = delete;
  RowDecoder& operator=(const RowDecoder&) = delete;

  /// Appends up to `count` rows to `rows` and returns how many: fewer only at the end. When it
  /// throws, none was taken.
  std::size_t Take(std::size_t count, ObjectVector& rows);

  /// True when all rows were taken.
  bool at_end();

  // For callers that take columns instead of rows; of a chunk that has some.

  bool columnar() const { return chunk_.kind() == chunk::ChunkKind::kColumnar; }
  /// Whether all of its rows can be objects at once (chunk::CanAllBeObjects).
  bool can_all_be_objects() const { return can_all_be_objects_; }
  const DecodeNode& root() const { return root_; }
  /// The rows to come, counted from the chunk's first.
  std::size_t next() const { return next_; }
  std::size_t rows_left() const { return static_cast<std::size_t>(chunk_.rows()) - next_; }
  /// Passes over `count` rows, which are left.
  void Skip(std::size_t count) { next_ += count; }
  /// What the rows [first, first + count) have in `node`, which is in the tree of `root()`.
  ObjectVector Values(const DecodeNode& node, std::size_t first, std::size_t count);

 private:
  DecodeNode Prepare(const chunk::RowNode& node);
  void Decode(const DecodeNode& node, std::size_t first, std::size_t count, PyObject** out);
  void DecodeSequences(const DecodeNode& node, std::size_t first, std::size_t count,
                       PyObject** out);
  void DecodeDicts(const DecodeNode& node, std::size_t first, std::size_t count, PyObject** out);
  void DecodeNumpyScalars(const DecodeNode& node, std::size_t first, std::size_t count,
                          PyObject** out);
  void DecodeArrays(const DecodeNode& node, std::size_t first, std::size_t count, PyObject** out);
  void DecodeRaggedArrays(const DecodeNode& node, std::size_t first, std::size_t count,
                          PyObject** out);
  void DecodeStringLists(const DecodeNode& node, std::size_t first, std::size_t count,
                         PyObject** out);
  std::vector<ObjectVector> DecodeChildren(const DecodeNode& node, std::size_t first,
                                           std::size_t count);
  void DecodeNumbers(const DecodeNode& node, std::size_t first, std::size_t count, PyObject** out);
  std::size_t TakePickled(std::size_t count, ObjectVector& rows);
  /// Makes `batch_` the next pickled batch that still has rows. False when none is left.
  bool UnpickleNext();
  void DecodeScalars(const DecodeNode& node, std::size_t first, std::size_t count, PyObject** out);
  const NumpyTypes& numpy();

  chunk::ChunkView chunk_;
  bool can_all_be_objects_ = true;
  DecodeNode root_;
  std::size_t next_ = 0;  ///< Row (columnar) or batch (pickled) to come.
  nb::object batch_;      ///< The unpickled list that rows are being taken from.
  std::size_t batch_next_ = 0;
  std::optional<NumpyTypes> numpy_;
  nb::object spark_row_;
};

/// All rows of a chunk. Errors: as RowDecoder.
nb::list DecodeAll(std::span<const std::byte> chunk);

}  // namespace tfos::python

#endif  // TFOS_PYTHON_CODEC_ROW_DECODER_H_
