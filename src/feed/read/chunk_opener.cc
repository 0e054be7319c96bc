#include "feed/read/chunk_opener.h"

#include <optional>
#include <utility>

#include "base/logging.h"
#include "chunk/pickle_leave.h"

namespace tfos::feed {
namespace {

template <typename T>
void RemoveExpired(std::vector<std::weak_ptr<T>>& pointers) {
  std::erase_if(pointers, [](const std::weak_ptr<T>& pointer) { return pointer.expired(); });
}

std::shared_ptr<const ChunkOrigin> OriginOf(const ChunkLoan& loan, std::uint64_t rows) {
  if (loan.is_cached() || loan.is_sample()) return nullptr;
  if (loan.mode() == Mode::kPass) {
    return std::make_shared<ChunkOrigin>(ChunkOrigin{
        .passed = true, .number = loan.attempt(), .partition = loan.partition(), .rows = rows});
  }
  return std::make_shared<ChunkOrigin>(
      ChunkOrigin{.partition = loan.partition(),
                  .job = loan.job(),
                  .chunk = {.items = {loan.first_item(), loan.first_item() + loan.items()},
                            .checksum = loan.checksum()},
                  .rows = rows});
}

}  // namespace

Result<ChunkOpener::Opened> ChunkOpener::Open(ChunkLoan& loan) {
  Opened opened;
  auto chunk = std::make_shared<RowChunk>();
  auto lent = std::make_shared<LentMemory>();
  std::span<const std::byte> bytes = loan.bytes();
  const bool of_feeder = !loan.is_private();
  chunk->lendable = !of_feeder;
  // A chunk to be converted needs no mapping of its own: it is read once, and here.
  if (of_feeder && chunk::SaysColumnar(bytes) && MayLend()) {
    // Fails when there are too many mappings. Then it copies.
    if (Result<PrivateView> view = loan.MapPrivately(); view.ok()) {
      lent->view = std::move(*view);
      bytes = lent->view.bytes();
      chunk->lendable = true;
    }
  }
  chunk->of_feeder = of_feeder;
  if (keep_sources_) chunk->source = lent;
  if (loan.until_read()) opened.unread = lent;
  const std::uint64_t rows_read = loan.is_sample() ? 0 : loan.rows_read();
  chunk->memory = lent;
  TFOS_ASSIGN_OR_RETURN(chunk::ChunkView view, chunk::ChunkView::Parse(bytes));
  TFOS_RETURN_IF_ERROR(chunk::CheckLeave(view, pickles_allowed_));
  if (view.kind() != chunk::ChunkKind::kColumnar) {
    TFOS_ASSIGN_OR_RETURN(columns::HeldBytes converted, Convert(view, bytes));
    TFOS_ASSIGN_OR_RETURN(view, chunk::ChunkView::Parse(converted.bytes));
    chunk->memory = std::move(converted.memory);
    chunk->lendable = true;
    chunk->of_feeder = false;
  } else if (of_feeder && chunk->lendable) {
    lent_.push_back(lent);
  }
  chunk->rows = static_cast<std::uint64_t>(view.rows());
  if (chunk->rows > rows_read) {
    TFOS_ASSIGN_OR_RETURN(chunk->columns, RowChunk::ColumnsOf(view));
  }
  chunk->origin = OriginOf(loan, chunk->rows);
  opened.chunk = std::move(chunk);
  // Last: whatever failed before has left the rows where they were.
  lent->loan = std::move(loan);
  return opened;
}

/// The columns of a chunk of another kind.
Result<columns::HeldBytes> ChunkOpener::Convert(const chunk::ChunkView& view,
                                                std::span<const std::byte> chunk) {
  if (view.kind() == chunk::ChunkKind::kPickledBatches) {
    TFOS_ASSIGN_OR_RETURN(std::optional<PooledBuffer> columns, pickles_.Convert(view));
    if (columns)
      return columns::HeldBytes{.bytes = columns->bytes, .memory = std::move(columns->memory)};
  }
  TFOS_ASSIGN_OR_RETURN(AlignedBuffer columns, converter_(chunk));
  auto memory = std::make_shared<AlignedBuffer>(std::move(columns));
  const std::span<const std::byte> bytes = memory->bytes();
  return columns::HeldBytes{.bytes = bytes, .memory = std::move(memory)};
}

bool ChunkOpener::MayLend() {
  RemoveExpired(lent_);
  RemoveExpired(detached_);
  return detached_.empty();
}

bool ChunkOpener::HasLent() {
  RemoveExpired(lent_);
  return !lent_.empty();
}

void ChunkOpener::DetachLent() {
  std::vector<std::weak_ptr<LentMemory>> still_lent;
  for (const std::weak_ptr<LentMemory>& pointer : lent_) {
    const std::shared_ptr<LentMemory> lent = pointer.lock();
    if (lent == nullptr) continue;
    if (const Status status = lent->view.Detach(); !status.ok()) {
      // The feeder gets it back with the last batch that refers to it.
      LogWarning("feed: {}", status.ToString());
      still_lent.push_back(pointer);
      continue;
    }
    lent->loan.Release();
    detached_.push_back(lent);
  }
  lent_ = std::move(still_lent);
}

}  // namespace tfos::feed
