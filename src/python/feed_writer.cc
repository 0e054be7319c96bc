#include "python/feed_writer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/format.h"
#include "python/arrow_capsules.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/row_decoder.h"

namespace tfos::python {
namespace {

// Several chunks must fit into a region, so that one is filled while another is read.
constexpr std::uint64_t kChunksInRegion = 4;
constexpr std::uint64_t kDefaultChunkBytes = 8 << 20;

/// What a node reports of itself is no mistake of this program's input.
[[noreturn]] void ThrowFeedStatus(const Status& status) {
  if (!status.ok() && status.kind() == ErrorKind::kBadInput) {
    ThrowStatus(Status(ErrorKind::kUnsupported, status.ToString()));
  }
  ThrowStatus(status);
}

template <typename T>
T FeedValueOrThrow(Result<T> result) {
  if (!result.ok()) ThrowFeedStatus(result.status());
  return std::move(result).value();
}

void FeedThrowIfError(const Status& status) {
  if (!status.ok()) ThrowFeedStatus(status);
}

}  // namespace

FeedWriter::FeedWriter(feed::PartitionWriterOptions options)
    : chunk_limit_bytes_(options.session.region_bytes == 0
                             ? kDefaultChunkBytes
                             : options.session.region_bytes / kChunksInRegion),
      partition_(options.session.key.partition) {
  options.check = &CheckSignals;
  writer_ =
      FeedValueOrThrow(WithoutGil([&] { return feed::PartitionWriter::Open(std::move(options)); }));
}

feed::PartitionWriter& FeedWriter::writer() {
  if (!writer_) ThrowStatus(Status(ErrorKind::kBadInput, "the feed writer is closed"));
  return *writer_;
}

template <typename Write>
std::uint64_t FeedWriter::WriteMissing(std::size_t count, Write write) {
  list_start_ = next_item_;
  next_item_ += count;
  std::uint64_t bytes = 0;
  for (std::size_t begin = 0; begin < count;) {
    const feed::ItemRanges::Stretch stretch = writer().delivered().From(list_start_ + begin);
    const std::size_t end = std::min<std::uint64_t>(count, stretch.end - list_start_);
    if (stretch.contained) {
      delivered_items_ += end - begin;
    } else {
      bytes += write(begin, end);
    }
    begin = end;
  }
  return bytes;
}

std::span<std::byte> FeedWriter::Reserve(std::uint64_t bytes) {
  return FeedValueOrThrow(WithoutGil([&] { return writer_->Reserve(bytes); }));
}

void FeedWriter::Commit(std::uint64_t bytes, std::size_t begin, std::size_t end) {
  const feed::ItemRange items{list_start_ + begin, list_start_ + end};
  FeedThrowIfError(WithoutGil([&] { return writer_->Commit(bytes, items); }));
  delivered_items_ += items.items();
}

std::uint64_t FeedWriter::WriteRows(nb::list rows) {
  writer();
  return WriteMissing(nb::len(rows), [&](std::size_t begin, std::size_t end) {
    return WriteEncoded(rows, begin, end);
  });
}

std::uint64_t FeedWriter::WriteEncoded(const nb::list& rows, std::size_t begin, std::size_t end) {
  if (writer_->stopped()) return 0;
  encoder_.Plan(rows, begin, end);
  while (true) {
    const std::uint64_t bytes = encoder_.bytes();
    if (bytes > chunk_limit_bytes_ && end - begin > 1) {
      const std::size_t middle = begin + (end - begin) / 2;
      const std::uint64_t first_half = WriteEncoded(rows, begin, middle);
      return first_half + WriteEncoded(rows, middle, end);
    }
    const std::span<std::byte> room = Reserve(bytes);
    if (room.empty()) return 0;
    if (encoder_.Fill(room)) {
      Commit(bytes, begin, end);
      return bytes;
    }
  }
}

std::uint64_t FeedWriter::WritePickled(nb::list batches) {
  writer();
  return WriteMissing(nb::len(batches), [&](std::size_t begin, std::size_t end) {
    return WriteBatches(batches, begin, end);
  });
}

std::uint64_t FeedWriter::WriteBatches(const nb::list& batches, std::size_t begin,
                                       std::size_t end) {
  if (writer_->stopped()) return 0;
  std::vector<std::unique_ptr<BufferView>> views;
  std::uint64_t data_bytes = 0;
  for (std::size_t i = begin; i < end; ++i) {
    views.push_back(std::make_unique<BufferView>(batches[i], PyBUF_SIMPLE));
    if (!views.back()->acquired()) throw nb::python_error();
    data_bytes += views.back()->bytes().size();
  }
  if (data_bytes > chunk_limit_bytes_ && views.size() > 1) {
    const std::size_t middle = begin + (end - begin) / 2;
    const std::uint64_t first_half = WriteBatches(batches, begin, middle);
    return first_half + WriteBatches(batches, middle, end);
  }
  feed::ChunkBuilder builder(feed::ChunkKind::kPickledBatches, feed::kUnknownRows);
  feed::ColumnSpec spec;
  spec.encoding = feed::ColumnEncoding::kOpaque;
  spec.values = views.size();
  spec.data_bytes = data_bytes;
  builder.AddColumn(std::move(spec));
  const std::uint64_t bytes = ValueOrThrow(builder.Plan());
  const std::span<std::byte> room = Reserve(bytes);
  if (room.empty()) return 0;
  ThrowIfError(builder.Begin(room));
  std::byte* const start = builder.data(0).data();
  std::byte* to = start;
  for (std::size_t i = 0; i < views.size(); ++i) {
    const std::span<const std::byte> batch = views[i]->bytes();
    std::memcpy(to, batch.data(), batch.size());
    to += batch.size();
    builder.SetBoundary(0, i + 1, static_cast<std::uint64_t>(to - start));
  }
  Commit(bytes, begin, end);
  return bytes;
}

std::uint64_t FeedWriter::WriteArrow(nb::handle batch, std::size_t begin, std::size_t end,
                                     feed::Decimals decimals) {
  writer();
  const ArrowImport exported = ArrowImport::Batch(batch);
  const auto columns =
      ValueOrThrow(feed::ArrowColumns::Open(exported.schema(), exported.array(), decimals));
  if (begin > end || end > columns->rows()) {
    ThrowStatus(Status(ErrorKind::kBadInput, fmt::format("rows [{}, {}) of a record batch of {}",
                                                         begin, end, columns->rows())));
  }
  const std::size_t first = begin;
  return WriteMissing(end - begin, [&](std::size_t from, std::size_t to) {
    return WriteColumns(*columns, first, from, to);
  });
}

std::uint64_t FeedWriter::WriteColumns(feed::ArrowColumns& columns, std::size_t first,
                                       std::size_t begin, std::size_t end) {
  if (writer_->stopped()) return 0;
  const Status planned =
      WithoutGil([&] { return columns.Plan(first + begin, first + end, list_start_ + begin); });
  if (!planned.ok()) ThrowStatus(planned.Annotate(fmt::format("partition {}", partition_)));
  const std::uint64_t bytes = columns.bytes();
  if (bytes > chunk_limit_bytes_ && end - begin > 1) {
    const std::size_t middle = begin + (end - begin) / 2;
    const std::uint64_t first_half = WriteColumns(columns, first, begin, middle);
    return first_half + WriteColumns(columns, first, middle, end);
  }
  const std::span<std::byte> room = Reserve(bytes);
  if (room.empty()) return 0;
  ThrowIfError(WithoutGil([&] { return columns.Fill(room); }));
  Commit(bytes, begin, end);
  return bytes;
}

nb::object FeedWriter::Results(bool block) {
  const std::optional<ResultBatch> results = TakeResultBatch(block);
  if (!results) return nb::none();
  return results->Objects();
}

std::optional<ResultBatch> FeedWriter::TakeResultBatch(bool block) {
  writer();
  std::optional<feed::ResultChunk> result =
      FeedValueOrThrow(WithoutGil([&] { return writer_->TakeResult(block); }));
  if (!result) return std::nullopt;
  return ResultBatch(std::move(*result));
}

void FeedWriter::End() {
  writer();
  FeedThrowIfError(WithoutGil([&] { return writer_->End(); }));
}

feed::Ended FeedWriter::Finish() {
  writer();
  return FeedValueOrThrow(WithoutGil([&] { return writer_->Finish(); }));
}

}  // namespace tfos::python
