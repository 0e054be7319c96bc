#include "feed/read/steps/pad_batch.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/format.h"
#include "base/memory/aligned_buffer.h"
#include "chunk/chunk.h"

namespace tfos::feed {
namespace {

/// `held` with zeros behind it, `bytes` in all.
Result<std::shared_ptr<AlignedBuffer>> Extend(const columns::HeldBytes& held, std::uint64_t bytes) {
  auto memory = std::make_shared<AlignedBuffer>(bytes);
  if (memory->size() != bytes) {
    return Status(ErrorKind::kNoResources, fmt::format("no memory for {} bytes of a batch", bytes));
  }
  const std::span<std::byte> room = memory->bytes();
  if (!held.bytes.empty()) std::memcpy(room.data(), held.bytes.data(), held.bytes.size());
  std::ranges::fill(room.subspan(held.bytes.size()), std::byte{0});
  return memory;
}

columns::HeldBytes Hold(std::shared_ptr<AlignedBuffer> memory) {
  const std::span<const std::byte> bytes = memory->bytes();
  return {.bytes = bytes, .memory = std::move(memory)};
}

/// Elements of one value.
std::uint64_t ValueElements(const columns::BatchColumnType& type) {
  std::uint64_t elements = 1;
  for (const std::uint64_t dimension : type.shape) elements *= dimension;
  return elements;
}

/// Empty values behind those of the column.
Result<columns::HeldBytes> ExtendBoundaries(const columns::HeldBytes& boundaries,
                                            std::uint64_t rows) {
  TFOS_ASSIGN_OR_RETURN(std::shared_ptr<AlignedBuffer> extended,
                        Extend(boundaries, (rows + 1) * sizeof(std::uint64_t)));
  const std::uint64_t known =
      std::max<std::uint64_t>(1, boundaries.bytes.size() / sizeof(std::uint64_t));
  std::byte* const begin = extended->bytes().data();
  const auto last = Load<std::uint64_t>(begin + (known - 1) * sizeof(std::uint64_t));
  for (std::uint64_t i = known; i <= rows; ++i) Store(last, begin + i * sizeof last);
  return Hold(std::move(extended));
}

}  // namespace

Result<Batch> PadBatch(Batch batch, const BatchOptions& options) {
  if (batch.rows == options.rows) return batch;
  batch.columns.resize(options.columns.size());
  for (std::size_t i = 0; i < options.columns.size(); ++i) {
    columns::BatchColumn& column = batch.columns[i];
    const columns::BatchColumnType& type = options.columns[i];
    switch (type.encoding) {
      case columns::BatchEncoding::kDense: {
        const std::uint64_t value_bytes = ValueElements(type) * chunk::DTypeBytes(type.dtype);
        TFOS_ASSIGN_OR_RETURN(std::shared_ptr<AlignedBuffer> extended,
                              Extend(column.data, options.rows * value_bytes));
        column.data = Hold(std::move(extended));
        break;
      }
      case columns::BatchEncoding::kStrings:
        column.strings.resize(options.rows * ValueElements(type));
        break;
      case columns::BatchEncoding::kRagged:
      case columns::BatchEncoding::kRaggedStrings:
        TFOS_ASSIGN_OR_RETURN(column.boundaries, ExtendBoundaries(column.boundaries, options.rows));
        break;
    }
  }
  return batch;
}

}  // namespace tfos::feed
