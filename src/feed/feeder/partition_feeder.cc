#include "feed/feeder/partition_feeder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/format.h"
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

}  // namespace

PartitionFeeder::PartitionFeeder(std::unique_ptr<PartitionWriter> writer,
                                 const SessionOptions& session, bool pickles)
    : writer_(std::move(writer)),
      chunk_limit_bytes_(session.region_bytes == 0 ? kDefaultChunkBytes
                                                   : session.region_bytes / kChunksInRegion),
      partition_(session.key.partition),
      pickles_(pickles) {}

Result<std::unique_ptr<PartitionFeeder>> PartitionFeeder::Open(PartitionWriterOptions options) {
  const SessionOptions session = options.session;
  const bool pickles = options.pickles;
  TFOS_ASSIGN_OR_RETURN(std::unique_ptr<PartitionWriter> writer,
                        OfNode(PartitionWriter::Open(std::move(options))));
  return std::unique_ptr<PartitionFeeder>(new PartitionFeeder(std::move(writer), session, pickles));
}

std::vector<ItemRange> PartitionFeeder::Take(std::uint64_t count) {
  std::vector<ItemRange> missing;
  const std::uint64_t end = next_item_ + count;
  while (next_item_ < end) {
    const ItemRanges::Stretch stretch = writer_->delivered().From(next_item_);
    const ItemRange items{next_item_, std::min(end, stretch.end)};
    if (stretch.contained) {
      delivered_items_ += items.items();
    } else {
      missing.push_back(items);
    }
    next_item_ = items.end;
  }
  return missing;
}

Result<std::span<std::byte>> PartitionFeeder::Reserve(std::uint64_t bytes) {
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
  for (const ItemRange& items : Take(end - begin)) {
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                          WriteRows(batch, begin + (items.begin - first_item), items));
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
  const std::uint64_t first_item = next_item_;
  std::uint64_t written = 0;
  for (const ItemRange& items : Take(sizes.size())) {
    TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes,
                          WriteBatches(sizes, copy, items.begin - first_item, items));
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
  chunk::ChunkBuilder builder(chunk::ChunkKind::kPickledBatches, chunk::kUnknownRows);
  chunk::ColumnSpec column;
  column.encoding = chunk::ColumnEncoding::kOpaque;
  column.values = mine.size();
  column.data_bytes = data_bytes;
  builder.AddColumn(std::move(column));
  TFOS_ASSIGN_OR_RETURN(const std::uint64_t bytes, builder.Plan());
  TFOS_ASSIGN_OR_RETURN(const std::span<std::byte> room, Reserve(bytes));
  if (room.empty()) return std::uint64_t{0};
  TFOS_RETURN_IF_ERROR(builder.Begin(room));
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < mine.size(); ++i) {
    copy(first + i, builder.data(0).data() + end);
    end += mine[i];
    builder.SetStringBoundary(0, i + 1, end);
  }
  TFOS_RETURN_IF_ERROR(Commit(bytes, items));
  return bytes;
}

Result<std::optional<ResultChunk>> PartitionFeeder::TakeResult(bool block) {
  return OfNode(writer_->TakeResult(block));
}

Status PartitionFeeder::End() { return OfNode(writer_->End()); }

Result<Ended> PartitionFeeder::Finish() { return OfNode(writer_->Finish()); }

}  // namespace tfos::feed
