#include "datasets/batch_source.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "base/logging.h"
#include "base/memory/aligned_buffer.h"
#include "base/thread/guarded.h"
#include "datasets/batch_storage.h"
#include "datasets/row_converter.h"
#include "feed/read/steps/pass_tracker.h"

namespace tfos::datasets {
namespace {

/// How long one call of TfosAwaitBatch waits for rows, and so what dropping an iterator mostly may
/// take. At the end of an epoch rows may go on to other nodes, which takes as long as those do.
constexpr std::chrono::milliseconds kAwaitFor{100};

void AddNumbers(BatchStorage& storage, chunk::DType dtype, std::vector<std::int64_t> dims,
                columns::HeldBytes held) {
  storage.AddNumbers(static_cast<std::int32_t>(dtype), std::move(dims), held.bytes,
                     std::move(held.memory));
}

void AddStrings(BatchStorage& storage, std::vector<std::int64_t> dims, columns::BatchColumn of) {
  const auto column = std::make_shared<const columns::BatchColumn>(std::move(of));
  std::vector<tfos_string> strings;
  strings.reserve(column->strings.size());
  for (const std::string_view text : column->strings) {
    strings.push_back({.data = text.data(), .bytes = text.size()});
  }
  storage.AddStrings(std::move(dims), std::move(strings), column);
}

void AddMask(BatchStorage& storage, std::uint64_t fed, std::uint64_t rows) {
  auto memory = std::make_shared<AlignedBuffer>(rows * sizeof(float));
  if (memory->size() == 0) throw std::bad_alloc();
  const std::span<std::byte> room = memory->bytes();
  for (std::uint64_t row = 0; row < rows; ++row) {
    Store(row < fed ? 1.0F : 0.0F, room.data() + row * sizeof(float));
  }
  AddNumbers(storage, chunk::DType::kFloat32, {static_cast<std::int64_t>(rows)},
             {.bytes = room, .memory = std::move(memory)});
}

void Add(feed::Batch batch, const feed::BatchOptions& options, bool padded, BatchStorage& storage) {
  for (std::size_t i = 0; i < batch.columns.size(); ++i) {
    columns::BatchColumn& column = batch.columns[i];
    const columns::BatchColumnType& type = options.columns[i];
    const auto rows = static_cast<std::int64_t>(padded ? options.rows : batch.rows);
    std::vector<std::int64_t> dims = {rows};
    dims.insert(dims.end(), type.shape.begin(), type.shape.end());
    switch (type.encoding) {
      case columns::BatchEncoding::kDense:
        AddNumbers(storage, type.dtype, std::move(dims), std::move(column.data));
        break;
      case columns::BatchEncoding::kStrings:
        AddStrings(storage, std::move(dims), std::move(column));
        break;
      case columns::BatchEncoding::kRagged: {
        const std::size_t count = column.data.bytes.size() / chunk::DTypeBytes(type.dtype);
        AddNumbers(storage, type.dtype, {static_cast<std::int64_t>(count)}, std::move(column.data));
        AddNumbers(storage, chunk::DType::kInt64, {rows + 1}, std::move(column.boundaries));
        break;
      }
      case columns::BatchEncoding::kRaggedStrings: {
        const std::size_t count = column.strings.size();
        columns::HeldBytes boundaries = std::move(column.boundaries);
        AddStrings(storage, {static_cast<std::int64_t>(count)}, std::move(column));
        AddNumbers(storage, chunk::DType::kInt64, {rows + 1}, std::move(boundaries));
        break;
      }
    }
  }
  if (padded) AddMask(storage, batch.rows, options.rows);
}

}  // namespace

/// The position in the queue, shared by all datasets over it.
struct BatchSource::Reading {
  Reading(std::shared_ptr<node::NodeFeed> of, const std::string& queue)
      : feed(std::move(of)),
        reader(feed->server(), queue, &ConvertToColumns),
        batches(reader, feed->steps(), queue) {}

  const std::shared_ptr<node::NodeFeed> feed;
  feed::BatchReader reader;
  feed::SynchronousBatches batches;
  std::atomic<std::uint64_t> dropped_rows = 0;  ///< As far as they were counted.
  std::atomic<std::uint64_t> passed_on = 0;     ///< Likewise.
  std::atomic<std::uint64_t> taken_over = 0;    ///< Likewise.
  std::atomic<bool> warned = false;
  std::atomic<bool> cut_short = false;
  std::atomic<bool> closed = false;
  Mutex mutex;
  feed::PassTracker passes TFOS_GUARDED_BY(mutex);
  using Ready = std::map<const Stream*, Result<feed::BatchResult>>;
  /// What each dataset has awaited, for `next`.
  Ready ready TFOS_GUARDED_BY(mutex);

  /// A new pass over this dataset begins.
  void BeginPass(const Stream& stream) TFOS_EXCLUDES(mutex);
  bool IsReady(const Stream& stream) TFOS_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    return ready.contains(&stream);
  }
  /// Where a dataset's batch is kept. Made before there is one, which would be lost without memory.
  static Ready::node_type PlaceFor(const Stream& stream) {
    Ready places;
    places.emplace(&stream, feed::BatchResult(feed::EndOfFeed{}));
    return places.extract(&stream);
  }
  void Keep(Ready::node_type place, Result<feed::BatchResult> awaited) TFOS_EXCLUDES(mutex) {
    place.mapped() = std::move(awaited);
    const MutexLock lock(mutex);
    ready.insert(std::move(place));
  }
  std::optional<Result<feed::BatchResult>> TakeReady(const Stream& stream) TFOS_EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    auto taken = ready.extract(&stream);
    if (taken.empty()) return std::nullopt;
    return std::move(taken.mapped());
  }

  /// Whether `next` is the end of an epoch that does not end the pass.
  bool IsPassedOver(const Result<feed::BatchResult>& next) {
    const MutexLock lock(mutex);
    if (!next.ok()) return false;
    if (std::holds_alternative<feed::Batch>(*next)) passes.OnBatch();
    return std::holds_alternative<feed::EndOfEpoch>(*next) && !passes.OnEndOfEpoch();
  }

  void NoteEnd(const Result<feed::BatchResult>& next) {
    if (!next.ok() || std::holds_alternative<feed::Batch>(*next)) return;
    const auto* const epoch = std::get_if<feed::EndOfEpoch>(&*next);
    cut_short = epoch == nullptr || !epoch->is_whole;
  }

  void CountDropped() {
    const std::uint64_t dropped = reader.dropped_rows();
    feed->CountDropped(dropped - dropped_rows.exchange(dropped));
    const std::uint64_t on = batches.rows_passed_on();
    const std::uint64_t over = batches.rows_taken_over();
    feed->CountPassed(on - passed_on.exchange(on), over - taken_over.exchange(over));
  }

  Status CheckOpen() const {
    if (!closed) feed->WhileWaiting();
    return closed ? Status(ErrorKind::kRetryLater, "the feed was closed") : Status::Ok();
  }
};

/// What a handle stands for.
struct BatchSource::Stream {
  std::shared_ptr<Reading> reading;
  feed::BatchOptions options;
  feed::Remainder remainder = feed::Remainder::kNone;
  std::atomic<std::int64_t> references = 1;
  Mutex mutex = {};
  /// The pass has ended, and a program that asks on is told so again.
  bool over TFOS_GUARDED_BY(mutex) = false;

  bool MakesTheSameOf(const Stream& other) const {
    return remainder == other.remainder && options == other.options;
  }

  /// What `next` gives, or none when it is not there by `deadline`.
  std::optional<Result<feed::BatchResult>> Read(Deadline deadline) {
    for (;;) {
      Result<feed::BatchResult> next = reading->batches.Next(
          remainder, options,
          {.deadline = deadline, .check = [this] { return reading->CheckOpen(); }});
      reading->CountDropped();
      const bool waited = !next.ok() && next.status().kind() == ErrorKind::kRetryLater;
      if (waited && deadline.passed() && !reading->closed) return std::nullopt;
      if (reading->IsPassedOver(next)) continue;
      reading->NoteEnd(next);
      return next;
    }
  }

  static void Retain(void* context) { ++static_cast<Stream*>(context)->references; }
  static void Release(void* context) {
    auto* const stream = static_cast<Stream*>(context);
    if (--stream->references > 0) return;
    stream->reading->TakeReady(*stream);
    delete stream;
  }

  void WarnOfMissingEpoch() const {
    if (reading->feed->server().reading_stopped()) {  // Whatever was fed.
      reading->feed->NoteAskedForMore();
      return;
    }
    if (reading->feed->server().terminated() || reading->warned.exchange(true)) return;
    reading->feed->NoteAskedForMore();
    const std::uint64_t epochs = reading->reader.epochs();
    LogWarning("feed: the program asks for epoch {}; the driver fed {}", epochs + 1, epochs);
  }
};

void BatchSource::Reading::BeginPass(const Stream& stream) {
  const MutexLock lock(mutex);
  const auto holds_batch = [](const auto& entry) {
    return entry.second.ok() && std::holds_alternative<feed::Batch>(*entry.second);
  };
  // Awaited by a pass that was then dropped: that pass's end doesn't concern this one.
  const auto own = ready.find(&stream);
  if (own != ready.end() && own->second.ok() &&
      std::holds_alternative<feed::EndOfEpoch>(*own->second)) {
    ready.erase(own);
  }
  // But a batch is this one's, also where programs make a dataset for each pass.
  if (!ready.contains(&stream)) {
    const auto left = std::ranges::find_if(ready, [&](const auto& entry) {
      return holds_batch(entry) && entry.first->MakesTheSameOf(stream);
    });
    if (left != ready.end()) {
      auto batch = ready.extract(left);
      batch.key() = &stream;
      ready.insert(std::move(batch));
    }
  }
  const auto now = ready.find(&stream);
  const bool has_batch = now != ready.end() && holds_batch(*now);
  if (has_batch) passes.OnBatchLeft();
  passes.Begin();
  if (passes.shares_epoch()) reader.NoteOtherPass();
  if (has_batch) passes.OnBatch();
}

BatchSource::BatchSource(std::shared_ptr<node::NodeFeed> feed, const std::string& queue)
    : reading_(std::make_shared<Reading>(std::move(feed), queue)) {}

feed::BatchReader& BatchSource::reader() { return reading_->reader; }

Status BatchSource::TellEpoch(const Wait& turn) { return reading_->batches.TellEpoch(turn); }

bool BatchSource::cut_short() const { return reading_->cut_short; }

void BatchSource::CountBatch(std::uint64_t rows) { reading_->feed->CountBatch(rows); }

Result<tfos_batch_source> BatchSource::Open(feed::BatchOptions options, feed::Remainder remainder) {
  if (reading_->closed)
    return Status(ErrorKind::kBadInput, "the feed was closed: no dataset can be made");
  auto* const stream =
      new Stream{.reading = reading_, .options = std::move(options), .remainder = remainder};
  return tfos_batch_source{.version = TFOS_BATCH_SOURCE_VERSION,
                           .context = stream,
                           .retain = &Stream::Retain,
                           .release = &Stream::Release,
                           .begin = &Begin,
                           .await = &Await,
                           .next = &NextBatch,
                           .release_batch = &BatchStorage::Release,
                           .open = nullptr};
}

Result<std::int64_t> BatchSource::Register(feed::BatchOptions options, feed::Remainder remainder,
                                           tfos_register_function add,
                                           tfos_unregister_function remove) {
  const MutexLock lock(mutex_);
  const Result<tfos_batch_source> source = Open(std::move(options), remainder);
  if (!source.ok()) return source.status();
  const std::int64_t handle = add(&*source);
  source->release(source->context);
  if (handle == 0) {
    return Status(ErrorKind::kUnsupported,
                  "tfos/_tensorflow_ops.so is of another version than tfos/_native: install tfos "
                  "anew");
  }
  remove_ = remove;
  handles_.push_back(handle);
  return handle;
}

void BatchSource::Close() {
  const MutexLock lock(mutex_);
  reading_->closed = true;
  for (const std::int64_t handle : std::exchange(handles_, {})) remove_(handle);
}

void BatchSource::Begin(void* context) {
  auto& stream = *static_cast<Stream*>(context);
  const MutexLock lock(stream.mutex);
  stream.over = false;
  stream.reading->BeginPass(stream);
}

std::int32_t BatchSource::Await(void* context) {
  auto& stream = *static_cast<Stream*>(context);
  std::int32_t waits = 0;
  const auto work = [&] {
    const MutexLock lock(stream.mutex);
    if (stream.over || stream.reading->IsReady(stream)) return;
    Reading::Ready::node_type place = Reading::PlaceFor(stream);
    auto awaited = stream.Read(Deadline::After(kAwaitFor));
    waits = awaited ? 0 : 1;
    if (awaited) stream.reading->Keep(std::move(place), *std::move(awaited));
  };
  // For `next` to say; where there is no memory even for that, it tries anew.
  const auto keep = [&](ErrorKind kind, const char* what) {
    const auto store = [&] {
      stream.reading->Keep(Reading::PlaceFor(stream), Status(kind, what).Annotate("make a batch"));
    };
    Guarded(store, [](ErrorKind, const char*) {});
  };
  Guarded(work, keep);
  return waits;
}

void BatchSource::NextBatch(void* context, tfos_batch* batch) {
  auto& stream = *static_cast<Stream*>(context);
  *batch = {};
  const auto work = [&] {
    auto storage = std::make_unique<BatchStorage>();
    Reading& reading = *stream.reading;
    std::optional<Result<feed::BatchResult>> awaited;
    {
      const MutexLock lock(stream.mutex);
      if (stream.over) {
        awaited.emplace(feed::BatchResult(feed::EndOfEpoch{}));
      } else {
        awaited = reading.TakeReady(stream);
      }
    }
    if (!awaited) awaited = stream.Read(Deadline::Infinite());
    Result<feed::BatchResult>& next = *awaited;
    if (!next.ok()) {
      storage->ShowIn(
          *batch,
          reading.closed ? tensorflow::kTfOutOfRange : tensorflow::TfCodeOf(next.status().kind()),
          next.status().ToString());
    } else if (auto* rows = std::get_if<feed::Batch>(&*next)) {
      reading.feed->CountBatch(rows->rows);
      Add(std::move(*rows), stream.options, stream.remainder == feed::Remainder::kPad, *storage);
      storage->ShowIn(*batch);
    } else {
      if (std::holds_alternative<feed::EndOfFeed>(*next)) stream.WarnOfMissingEpoch();
      {
        const MutexLock lock(stream.mutex);
        stream.over = true;
      }
      storage->ShowIn(*batch, tensorflow::kTfOutOfRange, "the end of the epoch");
    }
    BatchStorage::Give(std::move(storage), *batch);
  };
  Guarded(work, [&](ErrorKind kind, const char* what) { BatchStorage::Fail(*batch, kind, what); });
}

}  // namespace tfos::datasets
