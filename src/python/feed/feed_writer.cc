#include "python/feed/feed_writer.h"

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/memory/aligned_buffer.h"
#include "python/codec/row_decoder.h"
#include "python/objects/arrow_capsules.h"
#include "python/objects/errors.h"
#include "python/objects/gil.h"

namespace tfos::python {

FeedWriter::FeedWriter(feed::PartitionWriterOptions options)
    : pickles_(options.pickles), encoder_(options.pickles) {
  options.check = &CheckSignals;
  feeder_ =
      ValueOrThrow(WithoutGil([&] { return feed::PartitionFeeder::Open(std::move(options)); }));
}

FeedWriter::Use::Use(FeedWriter& writer, const char* method)
    : writer_(writer), only_(writer.running_, method, "feed writer") {
  if (writer.closed_) ThrowStatus(Status(ErrorKind::kBadInput, "the feed writer is closed"));
}

FeedWriter::Use::~Use() {
  if (writer_.closed_) writer_.feeder_.reset();
}

void FeedWriter::Close() {
  closed_ = true;
  // A call that runs uses it still, and lets go of it at its end.
  if (!running_) feeder_.reset();
}

bool FeedWriter::stopped() {
  if (closed_) return false;
  const Use use(*this, "stopped");
  return feeder_->stopped();
}

std::uint64_t FeedWriter::delivered_items() {
  const Use use(*this, "delivered_items");
  return feeder_->delivered_items();
}

std::uint64_t FeedWriter::moved_items() {
  const Use use(*this, "moved_items");
  return feeder_->moved_items();
}

std::span<std::byte> FeedWriter::Reserve(std::uint64_t bytes) {
  return ValueOrThrow(WithoutGil([&] { return feeder_->Reserve(bytes); }));
}

void FeedWriter::Commit(std::uint64_t bytes, const feed::ItemRange& items) {
  ThrowIfError(WithoutGil([&] { return feeder_->Commit(bytes, items); }));
}

std::uint64_t FeedWriter::WriteRows(nb::list rows) {
  const Use use(*this, "write_rows");
  std::uint64_t bytes = 0;
  const std::uint64_t first = feeder_->next_item();
  for (const feed::PartitionFeeder::Piece& piece : feeder_->Take(nb::len(rows))) {
    const std::size_t begin = piece.items.begin - first;
    if (piece.checksum) {
      Compare(rows, begin, piece);
    } else {
      bytes += WriteEncoded(rows, begin, piece.items);
    }
  }
  return bytes;
}

void FeedWriter::Compare(const nb::list& rows, std::size_t begin,
                         const feed::PartitionFeeder::Piece& piece) {
  encoder_.Plan(rows, begin, begin + piece.items.items());
  AlignedBuffer chunk;
  do {
    chunk = AlignedBuffer(encoder_.bytes());
    if (chunk.size() < encoder_.bytes()) {
      ThrowStatus(
          Status(ErrorKind::kNoResources,
                 fmt::format("no memory to compare a chunk of {} bytes", encoder_.bytes())));
    }
  } while (!encoder_.Fill(chunk.bytes()));
  // It may send it, and wait for room.
  ThrowIfError(WithoutGil([&] { return feeder_->Check(piece, chunk.bytes()); }));
}

feed::PartitionFeeder::Stretch FeedWriter::Ahead() {
  const Use use(*this, "ahead");
  return feeder_->Ahead();
}

feed::PartitionFeeder::Stretch FeedWriter::BatchesAhead() {
  const Use use(*this, "batches_ahead");
  return feeder_->BatchesAhead();
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
  const Use use(*this, "write_pickled");
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
  const Use use(*this, "write_arrow");
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
  const Use use(*this, "result_batch");
  std::optional<feed::ResultChunk> result =
      ValueOrThrow(WithoutGil([&] { return feeder_->TakeResult(block); }));
  if (!result) return std::nullopt;
  return ResultBatch(std::move(*result), pickles_);
}

void FeedWriter::End() {
  const Use use(*this, "end");
  ThrowIfError(WithoutGil([&] { return feeder_->End(); }));
}

feed::Ended FeedWriter::Finish() {
  const Use use(*this, "finish");
  return ValueOrThrow(WithoutGil([&] { return feeder_->Finish(); }));
}

}  // namespace tfos::python
