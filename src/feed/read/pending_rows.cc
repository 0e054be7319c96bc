#include "feed/read/pending_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/memory/aligned_buffer.h"
#include "feed/queue/cached_epoch.h"
#include "feed/wire/read_position.h"

namespace tfos::feed {
namespace {

/// The rows of the chunk as they are, with a source, in memory that no feeder waits for.
Result<std::shared_ptr<const RowChunk>> Keep(ChunkOpener& opener, const RowChunk& chunk) {
  const ChunkLoan& loan = chunk.source->loan;
  auto memory = std::make_shared<AlignedBuffer>(loan.bytes().size());
  if (memory->size() != loan.bytes().size()) {
    return Status(ErrorKind::kNoResources,
                  fmt::format("no memory for a chunk of {} bytes", loan.bytes().size()));
  }
  std::ranges::copy(loan.bytes(), memory->bytes().begin());
  ChunkLoan copy(CachedEpoch::Chunk{.memory = std::move(memory), .items = loan.items()});
  if (chunk.of_feeder) {
    TFOS_ASSIGN_OR_RETURN(ChunkOpener::Opened opened, opener.Open(copy));
    auto kept = std::make_shared<RowChunk>(*opened.chunk);
    kept->origin = chunk.origin;
    return std::shared_ptr<const RowChunk>(std::move(kept));
  }
  // Its columns have been converted. Only what they came from is the feeder's memory.
  auto kept = std::make_shared<RowChunk>(chunk);
  kept->source = std::make_shared<LentMemory>();
  kept->source->loan = std::move(copy);
  return std::shared_ptr<const RowChunk>(std::move(kept));
}

}  // namespace

void PendingRows::Piece::MarkRead() const {
  if (unread == nullptr) return;
  const std::uint64_t rows = first + count;
  unread->loan.MarkRead(rows == chunk->rows ? ReadTracker::kAllRows : rows);
}

void PendingRows::Add(std::shared_ptr<const RowChunk> chunk, std::uint64_t first,
                      std::uint64_t count, std::shared_ptr<LentMemory> unread) {
  pieces_.push_back(
      {.chunk = std::move(chunk), .first = first, .count = count, .unread = std::move(unread)});
  rows_ += count;
}

std::uint64_t PendingRows::passable_rows() const {
  std::uint64_t rows = 0;
  for (auto piece = pieces_.rbegin(); piece != pieces_.rend() && piece->passable(); ++piece) {
    rows += piece->count;
  }
  return rows;
}

bool PendingRows::until_read() const {
  return std::ranges::any_of(pieces_, [](const Piece& piece) { return piece.unread != nullptr; });
}

EpochLog::Part PendingRows::Piece::part() const {
  const std::uint64_t begin = chunk->origin_row + first;
  return {.origin = chunk->origin, .rows = {begin, begin + count}};
}

Result<Batch> PendingRows::Take(const BatchOptions& options, BufferPool& pool,
                                const Taking& taking) {
  Batch batch;
  std::vector<Piece> used;
  for (const Piece& piece : pieces_) {
    if (batch.rows == options.rows) break;
    used.push_back(piece);
    used.back().count = std::min(piece.count, options.rows - batch.rows);
    batch.rows += used.back().count;
  }
  std::vector<columns::ColumnPart> parts(used.size());
  for (std::size_t i = 0; i < options.columns.size(); ++i) {
    const columns::BatchColumnType& wanted = options.columns[i];
    for (std::size_t k = 0; k < used.size(); ++k) {
      const RowChunk& chunk = *used[k].chunk;
      TFOS_ASSIGN_OR_RETURN(const chunk::ColumnView* column, chunk.Find(wanted, i));
      parts[k] = {.column = column,
                  .first = used[k].first,
                  .count = used[k].count,
                  .memory = chunk.lendable ? chunk.memory : nullptr};
    }
    TFOS_ASSIGN_OR_RETURN(columns::BatchColumn column,
                          columns::GatherColumn(pool, parts, wanted.encoding));
    batch.columns.push_back(std::move(column));
  }
  if (taking) {
    std::vector<EpochLog::Part> taken;
    for (const Piece& piece : used) taken.push_back(piece.part());
    taking(std::move(taken));
  }
  // Last: where there was no memory before, no row is lost.
  rows_ -= batch.rows;
  for (const Piece& piece : used) {
    piece.MarkRead();
    Piece& front = pieces_.front();
    front.first += piece.count;
    front.count -= piece.count;
    if (front.count == 0) pieces_.pop_front();
  }
  return batch;
}

Result<std::uint64_t> PendingRows::PassOn(std::uint64_t rows, const PassRows& pass,
                                          const Passed& passed) {
  while (rows > 0 && !pieces_.empty() && pieces_.back().passable()) {
    Piece& last = pieces_.back();
    const std::uint64_t count = std::min(rows, last.count);
    const std::uint64_t end = last.first + last.count;
    const std::shared_ptr<LentMemory> source = last.chunk->source;
    TFOS_RETURN_IF_ERROR(pass(source->loan.bytes(), {end - count, end}));
    if (passed) passed({.origin = last.chunk->origin, .rows = {end - count, end}});
    rows -= count;
    rows_ -= count;
    last.count -= count;
    if (last.count == 0) pieces_.pop_back();
  }
  return rows;
}

std::uint64_t PendingRows::Drop() {
  for (const Piece& piece : pieces_) piece.MarkRead();
  pieces_.clear();
  return std::exchange(rows_, 0);
}

Status PendingRows::CopyFromFeeders(ChunkOpener& opener, bool keep_passable) {
  std::shared_ptr<const RowChunk> original;  // Of the piece before, and what was made of it.
  std::shared_ptr<const RowChunk> kept;
  for (Piece& piece : pieces_) {
    if (keep_passable && piece.unread == nullptr && piece.passable()) {
      if (piece.chunk->source->loan.is_private()) continue;
      if (piece.chunk != original) {
        TFOS_ASSIGN_OR_RETURN(kept, Keep(opener, *piece.chunk));
        original = piece.chunk;
      }
      piece.chunk = kept;
      continue;
    }
    piece.MarkRead();
    piece.unread.reset();
    if (!piece.chunk->of_feeder) {
      if (piece.chunk->source == nullptr) continue;
      // Only what it was converted from is the feeder's memory.
      auto without_source = std::make_shared<RowChunk>(*piece.chunk);
      without_source->source.reset();
      piece.chunk = std::move(without_source);
      continue;
    }
    TFOS_ASSIGN_OR_RETURN(std::shared_ptr<RowChunk> copy,
                          piece.chunk->Copy(opener.pool(), piece.first, piece.count));
    piece = {.chunk = std::move(copy), .first = 0, .count = piece.count};
  }
  return Status::Ok();
}

}  // namespace tfos::feed
