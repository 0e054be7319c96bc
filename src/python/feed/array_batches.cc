#include "python/feed/array_batches.h"

#include <nanobind/ndarray.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/memory/aligned_buffer.h"
#include "chunk/chunk.h"
#include "python/objects/errors.h"
#include "python/objects/gil.h"
#include "tensorflow/tf_codes.h"
#include "tfos/status.h"

namespace tfos::python {
namespace {

/// A batch on loan from its source.
class Loan {
 public:
  explicit Loan(const tfos_batch_source& source) : source_(source) {}
  /// With the GIL, though what it gives back may be a chunk, for which the feed may wait.
  ~Loan() {
    if (filled_) WithoutGil([this] { source_.release_batch(&batch_); });
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  void Fill() {
    source_.next(source_.context, &batch_);
    filled_ = true;
  }
  const tfos_batch& batch() const { return batch_; }
  std::span<const tfos_tensor> tensors() const {
    return {batch_.tensor, static_cast<std::size_t>(batch_.tensors)};
  }

 private:
  const tfos_batch_source& source_;
  tfos_batch batch_{};
  bool filled_ = false;
};

ErrorKind KindOf(std::int32_t code) {
  switch (code) {
    case tensorflow::kTfInvalidArgument:
      return ErrorKind::kBadInput;
    case tensorflow::kTfUnimplemented:
      return ErrorKind::kUnsupported;
    case tensorflow::kTfResourceExhausted:
      return ErrorKind::kNoResources;
    case tensorflow::kTfCancelled:
      return ErrorKind::kInterrupted;
    case tensorflow::kTfUnavailable:
      return ErrorKind::kRetryLater;
    default:
      return ErrorKind::kBug;
  }
}

/// By its type: a batch may have no string to point to.
bool HoldsStrings(const tfos_tensor& tensor) {
  return static_cast<chunk::DType>(tensor.dtype) == chunk::DType::kNone;
}

/// Empty for strings. Even an empty array has an address.
std::unique_ptr<AlignedBuffer> CopyOf(const tfos_tensor& tensor) {
  if (HoldsStrings(tensor)) return nullptr;
  auto copy = std::make_unique<AlignedBuffer>(std::max<std::size_t>(tensor.bytes, 1));
  if (copy->size() == 0) throw std::bad_alloc();
  if (tensor.bytes != 0) std::memcpy(copy->bytes().data(), tensor.data, tensor.bytes);
  return copy;
}

nb::dlpack::dtype DlpackType(std::int32_t dtype) {
  const chunk::DTypeInfo& type = chunk::kDTypes[static_cast<std::size_t>(dtype)];
  constexpr std::pair<char, nb::dlpack::dtype_code> kCodes[] = {
      {'b', nb::dlpack::dtype_code::Bool},
      {'i', nb::dlpack::dtype_code::Int},
      {'u', nb::dlpack::dtype_code::UInt},
      {'f', nb::dlpack::dtype_code::Float},
      {'c', nb::dlpack::dtype_code::Complex}};
  for (const auto& [kind, code] : kCodes) {
    if (type.kind != kind) continue;
    return {.code = static_cast<std::uint8_t>(code),
            .bits = static_cast<std::uint8_t>(8 * type.bytes),
            .lanes = 1};
  }
  ThrowStatus(Status(ErrorKind::kBug, "a type of the feed is unknown to NumPy; report this"));
}

nb::object NumberArray(const tfos_tensor& tensor, std::unique_ptr<AlignedBuffer> memory,
                       const NumpyTypes& numpy) {
  const std::vector<std::size_t> shape(tensor.dims, tensor.dims + tensor.rank);
  void* const data = memory->bytes().data();
  const nb::capsule owner(memory.get(),
                          [](void* held) noexcept { delete static_cast<AlignedBuffer*>(held); });
  memory.release();  // The capsule's now.
  nb::object array = nb::ndarray<nb::numpy>(data, shape.size(), shape.data(), owner, nullptr,
                                            DlpackType(tensor.dtype))
                         .cast();
  // Else int64 would be C's `long long`, which NumPy tells from its own.
  return array.attr("view")(numpy.DTypeObject(static_cast<chunk::DType>(tensor.dtype)));
}

nb::object StringArray(const tfos_tensor& tensor, const NumpyTypes& numpy) {
  nb::list shape;
  std::size_t count = 1;
  for (std::int32_t i = 0; i < tensor.rank; ++i) {
    shape.append(tensor.dims[i]);
    count *= static_cast<std::size_t>(tensor.dims[i]);
  }
  nb::list texts;
  for (std::size_t i = 0; i < count; ++i) {
    texts.append(nb::bytes(tensor.strings[i].data, tensor.strings[i].bytes));
  }
  const nb::object array = numpy.NewObjectArray(count);
  array.attr("__setitem__")(nb::slice(nb::none(), nb::none(), nb::none()), texts);
  return array.attr("reshape")(nb::tuple(shape));
}

}  // namespace

ArrayBatches::~ArrayBatches() {
  WithoutGil([this] { source_.release(source_.context); });
}

void ArrayBatches::Begin() {
  WithoutGil([&] { source_.begin(source_.context); });
}

std::optional<nb::list> ArrayBatches::Next() {
  Loan loan(source_);
  std::vector<std::unique_ptr<AlignedBuffer>> copies;
  ThrowIfError(WithoutGil([&] {
    while (source_.await(source_.context) != 0) {
      Status status = CheckSignals();
      if (!status.ok()) return status;
    }
    loan.Fill();
    for (const tfos_tensor& tensor : loan.tensors()) copies.push_back(CopyOf(tensor));
    return Status::Ok();
  }));
  const tfos_batch& batch = loan.batch();
  if (batch.code == tensorflow::kTfOutOfRange) return std::nullopt;
  if (batch.code != tensorflow::kTfOk) {
    ThrowStatus(Status(KindOf(batch.code), batch.message == nullptr ? "" : batch.message));
  }
  nb::list arrays;
  for (std::size_t i = 0; i < copies.size(); ++i) {
    const tfos_tensor& tensor = loan.tensors()[i];
    arrays.append(HoldsStrings(tensor) ? StringArray(tensor, numpy_)
                                       : NumberArray(tensor, std::move(copies[i]), numpy_));
  }
  return arrays;
}

}  // namespace tfos::python
