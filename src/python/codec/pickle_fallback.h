#ifndef TFOS_PYTHON_CODEC_PICKLE_FALLBACK_H_
#define TFOS_PYTHON_CODEC_PICKLE_FALLBACK_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "chunk/chunk.h"
#include "python/codec/numpy_types.h"

namespace tfos::python {

/// Turns rows that have no columns into a chunk that holds one pickle, with large buffers such as
/// those of NumPy arrays beside it.
///
/// Owner and lifetime: keeps the pickle and the buffers from Plan until the next Plan.
/// Threads: one at a time, with the GIL.
/// Errors: throws nb::python_error with what pickling raised. What pickle can't take by reference,
/// cloudpickle may take by value. When it can't either, its exception has pickle's as its cause.
/// Whatever else a row raises, or a signal, passes at once.
class PickleFallback {
 public:
  /// Pickles items [begin, end) of `rows`.
  void Plan(const nb::list& rows, std::size_t begin, std::size_t end);

  /// Bytes that the chunk needs.
  std::uint64_t bytes() const { return builder_->bytes(); }

  /// Writes the chunk to the front of `out`, which holds at least `bytes()`.
  void Fill(std::span<std::byte> out);

 private:
  nb::object Dumps(const char* module, const nb::object& rows);
  void Pickle(const nb::object& rows);

  std::optional<chunk::ChunkBuilder> builder_;
  nb::object pickle_;
  std::vector<std::unique_ptr<BufferView>> buffers_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_CODEC_PICKLE_FALLBACK_H_
