#include "python/bind/feed_writer.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "python/bind/gil.h"
#include "python/codec/arrow_capsules.h"
#include "python/codec/errors.h"
#include "python/codec/row_decoder.h"

namespace tfos::python {

FeedWriter::FeedWriter(feed::PartitionWriterOptions options) {
  options.check = &CheckSignals;
  feeder_ =
      ValueOrThrow(WithoutGil([&] { return feed::PartitionFeeder::Open(std::move(options)); }));
}

feed::PartitionFeeder& FeedWriter::feeder() {
  if (!feeder_) ThrowStatus(Status(ErrorKind::kBadInput, "the feed writer is closed"));
  return *feeder_;
}

std::span<std::byte> FeedWriter::Reserve(std::uint64_t bytes) {
  return ValueOrThrow(WithoutGil([&] { return feeder_->Reserve(bytes); }));
}

void FeedWriter::Commit(std::uint64_t bytes, const feed::ItemRange& items) {
  ThrowIfError(WithoutGil([&] { return feeder_->Commit(bytes, items); }));
}

std::uint64_t FeedWriter::WriteRows(nb::list rows) {
  std::uint64_t bytes = 0;
  const std::uint64_t first = feeder().next_item();
  for (const feed::ItemRange& items : feeder_->Take(nb::len(rows))) {
    bytes += WriteEncoded(rows, items.begin - first, items);
  }
  return bytes;
}

std::uint64_t FeedWriter::WriteEncoded(const nb::list& rows, std::size_t begin,
                                       const feed::ItemRange& items) {
  if (feeder_->stopped()) return 0;
  encoder_.Plan(rows, begin, begin + items.items());
  while (true) {
    const std::uint64_t bytes = encoder_.bytes();
    if (bytes > feeder_->chunk_limit_bytes() && items.items() > 1) {
      const auto [front, back] = feed::Halves(items);
      const std::uint64_t first_half = WriteEncoded(rows, begin, front);
      return first_half + WriteEncoded(rows, begin + front.items(), back);
    }
    const std::span<std::byte> room = Reserve(bytes);
    if (room.empty()) return 0;
    if (encoder_.Fill(room)) {
      Commit(bytes, items);
      return bytes;
    }
  }
}

std::uint64_t FeedWriter::WritePickled(nb::list batches) {
  feeder();
  std::vector<std::unique_ptr<BufferView>> views;
  std::vector<std::uint64_t> sizes;
  for (const nb::handle batch : batches) {
    views.push_back(std::make_unique<BufferView>(batch, PyBUF_SIMPLE));
    if (!views.back()->acquired()) throw nb::python_error();
    sizes.push_back(views.back()->bytes().size());
  }
  return ValueOrThrow(WithoutGil([&] {
    return feeder_->WritePickled(sizes, [&](std::size_t i, std::byte* to) {
      const std::span<const std::byte> batch = views[i]->bytes();
      if (!batch.empty()) std::memcpy(to, batch.data(), batch.size());
    });
  }));
}

std::uint64_t FeedWriter::WriteArrow(nb::handle batch, std::size_t begin, std::size_t end,
                                     columns::Decimals decimals) {
  feeder();
  const ArrowImport exported = ArrowImport::Batch(batch);
  const auto columns =
      ValueOrThrow(columns::ArrowColumns::Open(exported.schema(), exported.array(), decimals));
  return ValueOrThrow(WithoutGil([&] { return feeder_->Write(*columns, begin, end); }));
}

nb::object FeedWriter::Results(bool block) {
  const std::optional<ResultBatch> results = TakeResultBatch(block);
  if (!results) return nb::none();
  return results->Objects();
}

std::optional<ResultBatch> FeedWriter::TakeResultBatch(bool block) {
  feeder();
  std::optional<feed::ResultChunk> result =
      ValueOrThrow(WithoutGil([&] { return feeder_->TakeResult(block); }));
  if (!result) return std::nullopt;
  return ResultBatch(std::move(*result));
}

void FeedWriter::End() {
  feeder();
  ThrowIfError(WithoutGil([&] { return feeder_->End(); }));
}

feed::Ended FeedWriter::Finish() {
  feeder();
  return ValueOrThrow(WithoutGil([&] { return feeder_->Finish(); }));
}

}  // namespace tfos::python
