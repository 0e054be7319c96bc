#include "feed/feeder/partition_feeder.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "base/format.h"
#include "base/memory/aligned_buffer.h"
#include "base/memory/crc32c.h"
#include "chunk/chunk.h"
#include "chunk/pickle_leave.h"

namespace tfos::feed {
namespace {

// Several chunks must fit into a region, so that one is filled while another is read.
constexpr std::uint64_t kChunksInRegion = 4;
constexpr std::uint64_t kDefaultChunkBytes = 8 << 20;

/// What a node reports of itself isn't a mistake in this program's input.
Status OfNode(Status status) {
  if (status.ok() || status.kind() != ErrorKind::kBadInput) return status;
  return {ErrorKind::kUnsupported, status.ToString()};
}

template <typename T>
Result<T> OfNode(Result<T> result) {
  if (result.ok()) return result;
  return OfNode(std::move(result).status());
}

constexpr auto BeginOf = [](const AcceptedChunk& chunk) { return chunk.items.begin; };

Result<AlignedBuffer> Scratch(std::uint64_t bytes) {
  AlignedBuffer buffer(bytes);
  if (buffer.size() == bytes) return buffer;
  return Status(ErrorKind::kNoResources,
                fmt::format("no memory to compare a chunk of {} bytes", bytes));
}

}  // namespace

PartitionFeeder::PartitionFeeder(std::unique_ptr<PartitionWriter> writer,
                                 const PartitionWriterOptions& options)
    : writer_(std::move(writer)),
      chunk_limit_bytes_(options.session.region_bytes == 0
                             ? kDefaultChunkBytes
                             : options.session.region_bytes / kChunksInRegion),
      partition_(options.session.key.partition),
      pickles_(options.pickles),
      check_retries_(options.check_retries) {}

Result<std::unique_ptr<PartitionFeeder>> PartitionFeeder::Open(PartitionWriterOptions options) {
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<PartitionWriter> writer,
                        OfNode(PartitionWriter::Open(options)));
  return std::unique_ptr<PartitionFeeder>(new PartitionFeeder(std::move(writer), options));
}

const AcceptedChunk* PartitionFeeder::DeliveredAt(std::uint64_t item) const {
  const std::vector<AcceptedChunk>& chunks = writer_->delivered_chunks();
  const auto found = std::ranges::lower_bound(chunks, item, {}, BeginOf);
  return found != chunks.end() && found->items.begin == item && check_retries_ ? &*found : nullptr;
}

const AcceptedChunk* PartitionFeeder::PartlyTrainedAt(std::uint64_t item) const {
  const std::vector<AcceptedChunk>& chunks = writer_->partly_trained();
  const auto found = std::ranges::lower_bound(chunks, item, {}, BeginOf);
  return found != chunks.end() && found->items.begin == item ? &*found : nullptr;
}

std::uint64_t PartitionFeeder::NextCut(std::uint64_t item) const {
  const auto next = [item](const std::vector<AcceptedChunk>& chunks) {
    const auto found = std::ranges::upper_bound(chunks, item, {}, BeginOf);
    return found == chunks.end() ? std::uint64_t{std::numeric_limits<std::int64_t>::max()}
                                 : found->items.begin;
  };
  const std::uint64_t cut = next(writer_->partly_trained());
  return check_retries_ ? std::min(cut, next(writer_->delivered_chunks())) : cut;
}

PartitionFeeder::Stretch PartitionFeeder::Ahead() const {
  const AcceptedChunk* chunk = DeliveredAt(next_item_);
  if (chunk == nullptr) chunk = PartlyTrainedAt(next_item_);
  if (chunk != nullptr) return {.delivered = true, .items = chunk->items.items()};
  return {.delivered = false, .items = NextCut(next_item_) - next_item_};
}

PartitionFeeder::Stretch PartitionFeeder::BatchesAhead() const {
  Stretch ahead = Ahead();
  if (!ahead.delivered) ahead.items = std::min(ahead.items, batches_wanted_);
  return ahead;
}

void PartitionFeeder::CountDelivered(const ItemRange& items) {
  delivered_items_ += items.items() - writer_->trained().ItemsIn(items);
}

std::vector<PartitionFeeder::Piece> PartitionFeeder::Take(std::uint64_t count) {
  std::vector<Piece> pieces;
  const std::uint64_t end = next_item_ + count;
  while (next_item_ < end) {
    const AcceptedChunk* const chunk = DeliveredAt(next_item_);
    if (chunk != nullptr && chunk->items.end <= end && !stopped()) {
      pieces.push_back({.items = chunk->items, .checksum = chunk->checksum});
      CountDelivered(chunk->items);
      next_item_ = chunk->items.end;
      continue;
    }
    if (const AcceptedChunk* const part = PartlyTrainedAt(next_item_)) {
      has_missed_ = has_missed_ || part->items.end > end;
      if (!has_missed_ && !stopped()) {
        pieces.push_back(
            {.items = part->items, .checksum = part->checksum, .partly_trained = true});
      }
      next_item_ = std::min(part->items.end, end);
      continue;
    }
    const ItemRanges::Stretch stretch = writer_->delivered().From(next_item_);
    std::uint64_t until = std::min(end, stretch.end);
    if (stretch.contained) {
      // To the end of the chunk of which the caller has brought the rest before.
      if (check_retries_) until = std::min(until, next_item_ + Ahead().items);
      CountDelivered({next_item_, until});
    } else {
      until = std::min(until, NextCut(next_item_));
      pieces.push_back({.items = {next_item_, until}, .checksum = {}});
    }
    next_item_ = until;
  }
  return pieces;
}

Status PartitionFeeder::Check(const Piece& piece, std::span<const std::byte> chunk) {
  if (check_retries_ && piece.checksum && Crc32c(chunk) != *piece.checksum) {
    return Changed(
        fmt::format("items {} to {} are not those", piece.items.begin, piece.items.end - 1),
        piece.partly_trained || writer_->trained().ItemsIn(piece.items) > 0);
  }
  if (!piece.partly_trained) return {};
  TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, Reserve(chunk.size()));
  if (room.empty()) return {};
  std::ranges::copy(chunk, room.begin());
  return Commit(chunk.size(), piece.items);
}

Status PartitionFeeder::Changed(const std::string& what, bool trained) const {
  return {ErrorKind::kUnsupported,
          fmt::format(
              "partition {}: {} that {}. Spark has computed the "
              "partition again, and its rows came in another order or with other values. To go on "
              "would lose some and feed others twice. Give them an order before they are fed "
              "(sort by a key that is different in each row), or keep them: {}. {}",
              partition_, what,
              trained ? "the model was trained on before the checkpoint from which it goes on"
                      : "an earlier attempt at this task fed",
              trained ? "in a file" : "persist() on disk, checkpoint(), or a file",
              trained ? "With spark.tfos.feed.checkRetries=false, tfos.run(..., resume=...) begins "
                        "the interrupted epoch anew"
                      : "Where only values differ, as of random augmentation, "
                        "spark.tfos.feed.checkRetries=false feeds them uncompared")};
}

Result<std::span<std::byte>> PartitionFeeder::Reserve(std::uint64_t bytes) {
  // What follows would be sent as if nothing were known of it.
  if (has_missed_) return CheckEnd();
  return OfNode(writer_->Reserve(bytes));
}

Status PartitionFeeder::Commit(std::uint64_t bytes, const ItemRange& items) {
  TFOS_RETURN_IF_ERROR(OfNode(writer_->Commit(bytes, items)));
  delivered_items_ += items.items();
  return Status::Ok();
}

Result<std::uint64_t> PartitionFeeder::Write(columns::ArrowColumns& batch, std::size_t begin,
                                             std::size_t end) {
  if (begin > end || end > batch.rows()) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("rows [{}, {}) of a record batch of {}", begin, end, batch.rows()));
  }
  const std::uint64_t first_item = next_item_;
  std::uint64_t written = 0;
  for (const Piece& piece : Take(end - begin)) {
    const std::size_t first = begin + (piece.items.begin - first_item);
    if (piece.checksum) {
      TFOS_RETURN_IF_ERROR(batch.Plan(first, first + piece.items.items(), piece.items.begin)
                               .Annotate(fmt::format("partition {}", partition_)));
      TFOS_ASSIGN_OR_RETURN(AlignedBuffer again, Scratch(batch.bytes()));
      TFOS_RETURN_IF_ERROR(batch.Fill(again.bytes()));
      TFOS_RETURN_IF_ERROR(Check(piece, again.bytes()));
      continue;
    }
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes, WriteRows(batch, first, piece.items));
    written += bytes;
  }
  return written;
}

Result<std::uint64_t> PartitionFeeder::WriteRows(columns::ArrowColumns& batch, std::size_t first,
                                                 const ItemRange& items) {
  if (stopped()) return std::uint64_t{0};
  TFOS_RETURN_IF_ERROR(batch.Plan(first, first + items.items(), items.begin)
                           .Annotate(fmt::format("partition {}", partition_)));
  const std::uint64_t bytes = batch.bytes();
  if (bytes > chunk_limit_bytes_ && items.items() > 1) {
    const auto [front, back] = Halves(items);
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t front_bytes, WriteRows(batch, first, front));
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t back_bytes,
                          WriteRows(batch, first + front.items(), back));
    return front_bytes + back_bytes;
  }
  TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, Reserve(bytes));
  if (room.empty()) return std::uint64_t{0};
  TFOS_RETURN_IF_ERROR(batch.Fill(room));
  TFOS_RETURN_IF_ERROR(Commit(bytes, items));
  return bytes;
}

Result<std::uint64_t> PartitionFeeder::WritePickled(std::span<const std::uint64_t> sizes,
                                                    const CopyBatch& copy) {
  if (!pickles_) {
    return chunk::PicklesRefused("batches of rows that Spark has pickled were to be passed on");
  }
  batches_wanted_ = chunk::NextChunkBatches(sizes.size());
  const std::uint64_t first_item = next_item_;
  std::uint64_t written = 0;
  for (const Piece& piece : Take(sizes.size())) {
    const std::size_t first = piece.items.begin - first_item;
    if (piece.checksum) {
      AlignedBuffer again;
      const auto room = [&](std::uint64_t bytes) -> Result<std::span<std::byte>> {
        TFOS_ASSIGN_OR_RETURN(again, Scratch(bytes));
        return again.bytes();
      };
      TFOS_RETURN_IF_ERROR(
          Pack(sizes.subspan(first, piece.items.items()), copy, first, room).status());
      TFOS_RETURN_IF_ERROR(Check(piece, again.bytes()));
      continue;
    }
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes, WriteBatches(sizes, copy, first, piece.items));
    written += bytes;
  }
  return written;
}

Result<std::uint64_t> PartitionFeeder::WriteBatches(std::span<const std::uint64_t> sizes,
                                                    const CopyBatch& copy, std::size_t first,
                                                    const ItemRange& items) {
  if (stopped()) return std::uint64_t{0};
  const std::span<const std::uint64_t> mine = sizes.subspan(first, items.items());
  const std::uint64_t data_bytes = std::reduce(mine.begin(), mine.end(), std::uint64_t{0});
  if (data_bytes > chunk_limit_bytes_ && items.items() > 1) {
    const auto [front, back] = Halves(items);
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t front_bytes, WriteBatches(sizes, copy, first, front));
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t back_bytes,
                          WriteBatches(sizes, copy, first + front.items(), back));
    return front_bytes + back_bytes;
  }
  const auto room = [this](std::uint64_t bytes) { return Reserve(bytes); };
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes, Pack(mine, copy, first, room));
  if (bytes > 0) TFOS_RETURN_IF_ERROR(Commit(bytes, items));
  return bytes;
}

Result<std::uint64_t> PartitionFeeder::Pack(std::span<const std::uint64_t> sizes,
                                            const CopyBatch& copy, std::size_t first,
                                            const Room& room) {
  chunk::ChunkBuilder builder(chunk::ChunkKind::kPickledBatches, chunk::kUnknownRows);
  chunk::ColumnSpec column;
  column.encoding = chunk::ColumnEncoding::kOpaque;
  column.values = sizes.size();
  column.data_bytes = std::reduce(sizes.begin(), sizes.end(), std::uint64_t{0});
  builder.AddColumn(std::move(column));
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes, builder.Plan());
  TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> given, room(bytes));
  if (given.empty()) return std::uint64_t{0};
  TFOS_RETURN_IF_ERROR(builder.Begin(given));
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    copy(first + i, builder.data(0).data() + end);
    end += sizes[i];
    builder.SetStringBoundary(0, i + 1, end);
  }
  return bytes;
}

Result<std::optional<ResultChunk>> PartitionFeeder::TakeResult(bool block) {
  return OfNode(writer_->TakeResult(block));
}

Status PartitionFeeder::CheckEnd() const {
  const auto end_of = [](const std::vector<AcceptedChunk>& chunks) {
    return chunks.empty() ? 0 : chunks.back().items.end;
  };
  const std::uint64_t delivered = check_retries_ ? end_of(writer_->delivered_chunks()) : 0;
  const std::uint64_t end = std::max(delivered, end_of(writer_->partly_trained()));
  if (end <= next_item_ && !has_missed_) return {};
  return Changed(fmt::format("it has {} items, and had {} at least, of those", next_item_,
                             std::max(end, next_item_)),
                 end > delivered || writer_->trained().ItemsIn({next_item_, end}) > 0);
}

Status PartitionFeeder::End() { return OfNode(writer_->End()); }

Result<Ended> PartitionFeeder::Finish() {
  if (!stopped()) TFOS_RETURN_IF_ERROR(CheckEnd());
  return OfNode(writer_->Finish());
}

}  // namespace tfos::feed
