#ifndef TFOS_DATASETS_BATCH_STORAGE_H_
#define TFOS_DATASETS_BATCH_STORAGE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/thread/guarded.h"
#include "tensorflow/ops/batch_source_table.h"
#include "tensorflow/tf_code_of.h"

namespace tfos::datasets {

/// What a tfos_batch points to: the tensors of a batch, or a message.
///
/// Owner and lifetime: the batch's; memory that a tensor's user has taken over is not its any more.
/// Threads: one at a time. Errors: std::bad_alloc.
class BatchStorage {
 public:
  using Memory = std::shared_ptr<const void>;

  BatchStorage() = default;
  BatchStorage(const BatchStorage&) = delete;
  BatchStorage& operator=(const BatchStorage&) = delete;
  ~BatchStorage() {
    for (const tfos_tensor& tensor : tensors_) {
      if (tensor.owner != nullptr) tensor.release(tensor.owner);
    }
  }

  /// A tensor of numbers; `dtype` as in docs/formats/chunk.md. `memory` keeps `bytes`.
  void AddNumbers(std::int32_t dtype, std::vector<std::int64_t> dims,
                  std::span<const std::byte> bytes, Memory memory) {
    tfos_tensor& tensor = Add(dtype, std::move(dims));
    tensor.data = bytes.data();
    tensor.bytes = bytes.size();
    tensor.owner = new Memory(std::move(memory));
    tensor.release = [](void* owner) { delete static_cast<Memory*>(owner); };
  }

  /// A tensor of strings, whose bytes `memory` keeps.
  void AddStrings(std::vector<std::int64_t> dims, std::vector<tfos_string> strings, Memory memory) {
    strings_.push_back(std::move(strings));
    kept_.push_back(std::move(memory));
    Add(0, std::move(dims)).strings = strings_.back().data();
  }

  /// Makes `batch` point to what was added.
  void ShowIn(tfos_batch& batch) {
    batch.tensors = static_cast<std::int32_t>(tensors_.size());
    batch.tensor = tensors_.data();
  }

  /// Makes `batch` a failure, or the end.
  void ShowIn(tfos_batch& batch, std::int32_t code, std::string message) {
    message_ = std::move(message);
    batch.code = code;
    batch.message = message_.c_str();
  }

  /// Hands itself over to a batch; `Release` is the batch's release_batch.
  static void Give(std::unique_ptr<BatchStorage> storage, tfos_batch& batch) {
    batch.storage = storage.release();
  }
  /// Makes `batch` the failure of what is thrown while it was made. Never throws.
  static void Fail(tfos_batch& batch, ErrorKind kind, const char* what) {
    const int code = tensorflow::TfCodeOf(kind);
    batch = {};
    batch.code = code;
    batch.message = kind == ErrorKind::kNoResources ? "no memory for a batch"
                                                    : "making a batch failed; report this";
    Guarded(
        [&] {
          auto storage = std::make_unique<BatchStorage>();
          storage->ShowIn(batch, code, std::string("making a batch failed: ") + what);
          Give(std::move(storage), batch);
        },
        [](ErrorKind, const char*) {});  // The text above is in the library.
  }
  static void Release(tfos_batch* batch) { delete static_cast<BatchStorage*>(batch->storage); }

 private:
  tfos_tensor& Add(std::int32_t dtype, std::vector<std::int64_t> dims) {
    dims_.push_back(std::move(dims));
    tfos_tensor& tensor = tensors_.emplace_back();
    tensor.dtype = dtype;
    tensor.rank = static_cast<std::int32_t>(dims_.back().size());
    tensor.dims = dims_.back().data();
    return tensor;
  }

  std::vector<tfos_tensor> tensors_;
  // What is pointed to does not move in these.
  std::deque<std::vector<std::int64_t>> dims_;
  std::deque<std::vector<tfos_string>> strings_;
  std::vector<Memory> kept_;
  std::string message_;
};

}  // namespace tfos::datasets

#endif  // TFOS_DATASETS_BATCH_STORAGE_H_
