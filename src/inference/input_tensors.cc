#include "inference/input_tensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/memory/aligned_buffer.h"
#include "inference/number_conversion.h"
#include "tensorflow/chunk_type.h"
#include "tensorflow/tf_codes.h"

namespace tfos::inference {
namespace {

using namespace tensorflow;  // NOLINT: its type codes.
using chunk::ColumnEncoding;
using chunk::ColumnView;
using chunk::DType;

int TypeOf(DType dtype) { return TypeOfChunk(static_cast<std::int32_t>(dtype)); }

/// A tensor over memory that it shares.
SessionTensor Wrap(const SessionApi& api, int dtype, const std::vector<std::int64_t>& shape,
                   const void* data, std::size_t bytes, std::shared_ptr<const void> memory) {
  using Held = std::shared_ptr<const void>;
  const auto release = [](void*, std::size_t, void* held) { delete static_cast<Held*>(held); };
  return {api.NewTensor(dtype, shape.data(), static_cast<int>(shape.size()),
                        const_cast<void*>(data), bytes, release, new Held(std::move(memory))),
          DeleteSessionTensor{&api}};
}

std::shared_ptr<AlignedBuffer> Allocate(std::uint64_t bytes) {
  // TensorFlow wants an address also where there is nothing.
  auto buffer = std::make_shared<AlignedBuffer>(std::max<std::uint64_t>(bytes, 1));
  if (buffer->size() == 0) throw std::bad_alloc();
  return buffer;
}

/// Strings of a tensor, which free themselves with it.
struct StringMemory {
  const SessionApi& api;
  AlignedBuffer strings;
  std::uint64_t count;

  TF_TString* At(std::uint64_t i) {
    return reinterpret_cast<TF_TString*>(strings.bytes().data() + i * kTStringBytes);
  }
  ~StringMemory() {
    for (std::uint64_t i = 0; i < count; ++i) api.StringDealloc(At(i));
  }
};

/// Makes one input out of its column in all blocks.
class InputMaker {
 public:
  InputMaker(const SessionApi& api, const InferencePlan& plan, const PlannedInput& input,
             std::span<const RowBlock> blocks, std::uint64_t rows)
      : api_(api), name_(plan.columns[input.column]), input_(input), blocks_(blocks), rows_(rows) {}

  Status Make(std::vector<SessionTensor>& tensors) {
    if (input_.splits) return MakeRagged(tensors);
    if (input_.tensor.dtype == kTfString) return MakeStrings(tensors);
    const bool bytes = chunk::HoldsStrings(ColumnOf(blocks_[0]).encoding);
    for (const RowBlock& block : blocks_) {
      if (chunk::HoldsStrings(ColumnOf(block).encoding) == bytes) continue;
      return Bad(fmt::format("row {} has {}, row {} has {}", blocks_[0].first_row,
                             bytes ? "bytes" : "numbers", block.first_row,
                             bytes ? "numbers" : "bytes"));
    }
    return bytes ? MakeFromBytes(tensors) : MakeNumbers(tensors);
  }

 private:
  const ColumnView& ColumnOf(const RowBlock& block) const { return block.columns[input_.column]; }

  Status Bad(std::string what) const {
    return {ErrorKind::kBadInput, fmt::format("column {} for input {}, which is {}: {}", name_,
                                              input_.tensor.name, TypeText(input_.tensor), what)};
  }

  /// The shape of the tensor, for which the values of all blocks must have one.
  Result<std::vector<std::int64_t>> CommonShape() const {
    const ColumnView& first = ColumnOf(blocks_[0]);
    for (const RowBlock& block : blocks_) {
      const ColumnView& column = ColumnOf(block);
      if (chunk::IsRagged(column.encoding)) return Ragged(block, column);
      if (column.shape != first.shape) {
        return Bad(fmt::format("rows from row {} on have [{}] values, those before [{}]",
                               block.first_row, fmt::join(column.shape, ", "),
                               fmt::join(first.shape, ", ")));
      }
    }
    return ShapeFor(first.shape);
  }

  Status MakeNumbers(std::vector<SessionTensor>& tensors) {
    const ColumnView& first = ColumnOf(blocks_[0]);
    TFOS_ASSIGN_OR_RETURN(const std::vector<std::int64_t> shape, CommonShape());
    const std::uint64_t value_elements = first.value_bytes / chunk::DTypeBytes(first.dtype);
    const int from = TypeOf(first.dtype);
    if (blocks_.size() == 1 && from == input_.tensor.dtype && first.values == rows_ &&
        !first.data.empty()) {
      tensors.push_back(
          Wrap(api_, from, shape, first.data.data(), first.data.size(), blocks_[0].memory));
      return Status::Ok();
    }
    const std::size_t element = api_.DataTypeSize(input_.tensor.dtype);
    const std::uint64_t bytes = rows_ * value_elements * element;
    const auto memory = Allocate(bytes);
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t written, Convert(element, memory->bytes().data()));
    std::memset(memory->bytes().data() + written, 0, bytes - written);
    tensors.push_back(
        Wrap(api_, input_.tensor.dtype, shape, memory->bytes().data(), bytes, memory));
    return Status::Ok();
  }

  /// Writes the numbers of all blocks behind each other; how many bytes.
  Result<std::uint64_t> Convert(std::size_t element, std::byte* out) const {
    std::uint64_t written = 0;
    for (const RowBlock& block : blocks_) {
      const ColumnView& column = ColumnOf(block);
      const auto failed =
          ConvertNumbers(TypeOf(column.dtype), column.data, input_.tensor.dtype, out + written);
      if (failed) {
        return Bad(fmt::format("a number of row {} is beyond the range of {}",
                               RowOfElement(block, column, *failed),
                               DataTypeName(input_.tensor.dtype)));
      }
      written += column.data.size() / chunk::DTypeBytes(column.dtype) * element;
    }
    return written;
  }

  static std::uint64_t RowOfElement(const RowBlock& block, const ColumnView& column,
                                    std::uint64_t element) {
    if (column.encoding == ColumnEncoding::kRagged) {
      std::uint64_t row = 0;
      while (column.Boundary(row + 1) <= element) ++row;
      return block.first_row + row;
    }
    return block.first_row + element * chunk::DTypeBytes(column.dtype) / column.value_bytes;
  }

  /// The tensor's shape for values of the shape `value`: its own, or one of as many elements.
  Result<std::vector<std::int64_t>> ShapeFor(const std::vector<std::uint64_t>& value) const {
    std::vector<std::int64_t> shape{static_cast<std::int64_t>(rows_)};
    if (!input_.tensor.shape) {
      for (const std::uint64_t size : value) shape.push_back(static_cast<std::int64_t>(size));
      return shape;
    }
    const std::span wanted = std::span(*input_.tensor.shape).subspan(1);
    const auto fits = [](std::int64_t size, std::uint64_t found) {
      return size == TensorSpec::kUnknown || static_cast<std::uint64_t>(size) == found;
    };
    if (wanted.size() == value.size()) {
      if (std::ranges::equal(wanted, value, fits)) {
        for (const std::uint64_t size : value) shape.push_back(static_cast<std::int64_t>(size));
        return shape;
      }
    } else if (std::ranges::count(wanted, TensorSpec::kUnknown) <= 1 || value.empty()) {
      std::uint64_t elements = 1;
      for (const std::uint64_t size : value) elements *= size;
      std::uint64_t known = 1;
      bool unknown = false;
      for (const std::int64_t size : wanted) {
        unknown = unknown || size == TensorSpec::kUnknown;
        if (size != TensorSpec::kUnknown) known = CappedProduct(known, size);
      }
      if (unknown ? known != 0 && elements % known == 0 : elements == known) {
        for (const std::int64_t size : wanted) {
          shape.push_back(size == TensorSpec::kUnknown ? static_cast<std::int64_t>(elements / known)
                                                       : size);
        }
        return shape;
      }
    }
    return Bad(fmt::format("a row has [{}] values (row {})", fmt::join(value, ", "),
                           blocks_[0].first_row));
  }

  static std::uint64_t CappedProduct(std::uint64_t a, std::int64_t b) {
    std::uint64_t product = 0;
    return __builtin_mul_overflow(a, static_cast<std::uint64_t>(b), &product)
               ? std::numeric_limits<std::uint64_t>::max()
               : product;
  }

  Status Ragged(const RowBlock& block, const ColumnView& column) const {
    const std::uint64_t first = column.Boundary(1) - column.Boundary(0);
    std::uint64_t row = 1;
    while (row + 1 < column.values && column.Boundary(row + 1) - column.Boundary(row) == first) {
      ++row;
    }
    return Bad(
        fmt::format("row {} has {} values, row {} has {}; make the lists equally long, or "
                    "use a model with a ragged input",
                    block.first_row, first, block.first_row + row,
                    column.Boundary(row + 1) - column.Boundary(row)));
  }

  /// Each row's bytes are uint8 numbers.
  Status MakeFromBytes(std::vector<SessionTensor>& tensors) const {
    const std::uint64_t length = ColumnOf(blocks_[0]).Value(0).size();
    const auto memory = Allocate(rows_ * length);
    std::byte* to = memory->bytes().data();
    for (const RowBlock& block : blocks_) {
      const ColumnView& column = ColumnOf(block);
      for (std::uint64_t i = 0; i < column.values; ++i) {
        const auto value = column.Value(i);
        if (value.size() != length) {
          return Bad(fmt::format("row {} has {} bytes, row {} has {}", blocks_[0].first_row, length,
                                 block.first_row + i, value.size()));
        }
        if (length != 0) std::memcpy(to, value.data(), length);
        to += length;
      }
    }
    TFOS_ASSIGN_OR_RETURN(const std::vector<std::int64_t> shape, ShapeFor({length}));
    std::memset(to, 0, rows_ * length - static_cast<std::uint64_t>(to - memory->bytes().data()));
    tensors.push_back(
        Wrap(api_, input_.tensor.dtype, shape, memory->bytes().data(), rows_ * length, memory));
    return Status::Ok();
  }

  Status MakeStrings(std::vector<SessionTensor>& tensors) const {
    TFOS_ASSIGN_OR_RETURN(const std::vector<std::int64_t> shape, CommonShape());
    AddStrings(shape, rows_ * ColumnOf(blocks_[0]).value_elements, tensors);
    return Status::Ok();
  }

  /// Adds the strings of all blocks behind each other, and empty ones up to `count`.
  void AddStrings(const std::vector<std::int64_t>& shape, std::uint64_t count,
                  std::vector<SessionTensor>& tensors) const {
    // TensorFlow wants an address also where there is nothing.
    auto memory = std::unique_ptr<StringMemory>(new StringMemory{
        api_, AlignedBuffer(std::max<std::uint64_t>(count, 1) * kTStringBytes), 0});
    if (memory->strings.size() == 0) throw std::bad_alloc();
    for (; memory->count < count; ++memory->count) api_.StringInit(memory->At(memory->count));
    std::uint64_t at = 0;
    for (const RowBlock& block : blocks_) {
      const ColumnView& column = ColumnOf(block);
      for (std::uint64_t i = 0; i < column.elements; ++i) {
        const auto string = column.BytesOf({i, i + 1});
        api_.StringCopy(memory->At(at++), reinterpret_cast<const char*>(string.data()),
                        string.size());
      }
    }
    const auto release = [](void*, std::size_t, void* held) {
      delete static_cast<StringMemory*>(held);
    };
    void* const data = memory->strings.bytes().data();
    tensors.emplace_back(api_.NewTensor(kTfString, shape.data(), static_cast<int>(shape.size()),
                                        data, count * kTStringBytes, release, memory.get()),
                         DeleteSessionTensor{&api_});
    memory.release();  // The tensor's now.
  }

  Status MakeRagged(std::vector<SessionTensor>& tensors) const {
    const bool wide = input_.splits->dtype == kTfInt64;
    const std::size_t split_bytes = wide ? sizeof(std::int64_t) : sizeof(std::int32_t);
    const auto splits = Allocate((rows_ + 1) * split_bytes);
    std::uint64_t elements = 0;
    std::uint64_t row = 0;
    const auto add_split = [&] {
      std::byte* const to = splits->bytes().data() + row++ * split_bytes;
      if (wide) {
        Store(static_cast<std::int64_t>(elements), to);
      } else {
        Store(static_cast<std::int32_t>(elements), to);
      }
    };
    add_split();
    for (const RowBlock& block : blocks_) {
      const ColumnView& column = ColumnOf(block);
      const std::uint64_t before = elements;
      for (std::uint64_t i = 0; i < column.values; ++i) {
        elements = before + column.ElementsOf(i).end;
        add_split();
      }
    }
    if (!wide && elements > std::numeric_limits<std::int32_t>::max()) {
      return Bad("more values than row splits of int32 count; use smaller batches");
    }
    while (row <= rows_) add_split();
    const std::vector<std::int64_t> shape{static_cast<std::int64_t>(elements)};
    if (input_.tensor.dtype == kTfString) {
      AddStrings(shape, elements, tensors);
    } else {
      const std::size_t element = api_.DataTypeSize(input_.tensor.dtype);
      const auto memory = Allocate(elements * element);
      TFOS_RETURN_IF_ERROR(Convert(element, memory->bytes().data()).status());
      tensors.push_back(Wrap(api_, input_.tensor.dtype, shape, memory->bytes().data(),
                             elements * element, memory));
    }
    tensors.push_back(Wrap(api_, input_.splits->dtype, {static_cast<std::int64_t>(rows_ + 1)},
                           splits->bytes().data(), (rows_ + 1) * split_bytes, splits));
    return Status::Ok();
  }

  const SessionApi& api_;
  const std::string& name_;
  const PlannedInput& input_;
  const std::span<const RowBlock> blocks_;
  const std::uint64_t rows_;
};

}  // namespace

Result<std::vector<SessionTensor>> MakeInputs(const SessionApi& api, const InferencePlan& plan,
                                              std::span<const RowBlock> blocks,
                                              std::uint64_t rows) {
  std::vector<SessionTensor> tensors;
  for (const PlannedInput& input : plan.inputs) {
    TFOS_RETURN_IF_ERROR(InputMaker(api, plan, input, blocks, rows).Make(tensors));
  }
  return tensors;
}

}  // namespace tfos::inference
