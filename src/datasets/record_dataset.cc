#include "datasets/record_dataset.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <numeric>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "base/logging.h"
#include "base/memory/aligned_buffer.h"
#include "base/thread/guarded.h"
#include "base/thread/mutex.h"
#include "base/thread/thread.h"
#include "chunk/chunk.h"
#include "datasets/batch_storage.h"
#include "files/process_hadoop.h"

namespace tfos::datasets {
namespace {

using chunk::DType;
using records::ColumnShape;
using records::ElementType;
using records::ExampleColumn;

/// Batches that a pass has read and nobody has taken yet. One more is being read.
constexpr std::size_t kReadAhead = 2;

/// How long one call of TfosAwaitBatch waits, and so what dropping an iterator may take.
constexpr std::chrono::milliseconds kAwaitFor{100};

DType DTypeOf(ElementType type) {
  switch (type) {
    case ElementType::kBool:
      return DType::kBool;
    case ElementType::kInt8:
      return DType::kInt8;
    case ElementType::kInt16:
      return DType::kInt16;
    case ElementType::kInt32:
      return DType::kInt32;
    case ElementType::kInt64:
      return DType::kInt64;
    case ElementType::kFloat32:
      return DType::kFloat32;
    case ElementType::kFloat64:
      return DType::kFloat64;
    case ElementType::kString:
    case ElementType::kBinary:
      break;
  }
  return DType::kNone;
}

/// A count for the contexts of batch_source.h.
template <typename T>
struct Counted {
  std::atomic<std::int64_t> references = 1;

  static void Retain(void* context) { ++static_cast<T*>(context)->references; }
  static void Release(void* context) {
    auto* const counted = static_cast<T*>(context);
    if (--counted->references == 0) delete counted;
  }
};

/// Aligned memory for `count` values, and what keeps it.
template <typename T>
std::pair<T*, std::shared_ptr<AlignedBuffer>> MakeRoom(std::size_t count) {
  auto memory = std::make_shared<AlignedBuffer>(count * sizeof(T));
  if (memory->size() != count * sizeof(T)) throw std::bad_alloc();
  return {reinterpret_cast<T*>(memory->bytes().data()), memory};
}

/// Keeps the buffers of a column.
BatchStorage::Memory MemoryOf(arrow::Field& values) {
  return std::make_shared<const std::vector<BatchStorage::Memory>>(std::move(values.memory));
}

/// Adds a tensor of elements, as the records library lays them out: of numbers without a copy.
void AddElements(ElementType type, arrow::Field& values, std::vector<std::int64_t> dims,
                 BatchStorage& storage) {
  const auto count = static_cast<std::size_t>(
      std::accumulate(dims.begin(), dims.end(), std::int64_t{1}, std::multiplies<>()));
  const auto dtype = static_cast<std::int32_t>(DTypeOf(type));
  if (DTypeOf(type) == DType::kNone) {
    const auto* const offsets = static_cast<const std::int32_t*>(values.buffers[1]);
    const auto* const data = static_cast<const char*>(values.buffers[2]);
    std::vector<tfos_string> strings(count);
    for (std::size_t i = 0; i < count; ++i) {
      strings[i] = {.data = data + offsets[i],
                    .bytes = static_cast<std::uint64_t>(offsets[i + 1] - offsets[i])};
    }
    storage.AddStrings(std::move(dims), std::move(strings), MemoryOf(values));
  } else if (type == ElementType::kBool) {  // A bit each in Arrow, a byte each in TensorFlow.
    const auto* const bits = static_cast<const std::uint8_t*>(values.buffers[1]);
    auto [room, memory] = MakeRoom<std::uint8_t>(count);
    for (std::size_t i = 0; i < count; ++i) room[i] = bits[i / 8] >> (i % 8) & 1;
    const std::span<const std::byte> bytes = memory->bytes();
    storage.AddNumbers(dtype, std::move(dims), bytes, std::move(memory));
  } else {
    const auto* const data = static_cast<const std::byte*>(values.buffers[1]);
    storage.AddNumbers(dtype, std::move(dims), {data, count * chunk::DTypeBytes(DTypeOf(type))},
                       MemoryOf(values));
  }
}

/// How many elements all lists of a column have together.
std::int64_t LastBoundary(const arrow::Field& lists) {
  return static_cast<const std::int32_t*>(lists.buffers[1])[lists.length];
}

/// Adds the tensor of where lists begin, and where the last one ends.
void AddBoundaries(const arrow::Field& lists, BatchStorage& storage) {
  const auto* const offsets = static_cast<const std::int32_t*>(lists.buffers[1]);
  const auto count = static_cast<std::size_t>(lists.length) + 1;
  auto [room, memory] = MakeRoom<std::int64_t>(count);
  std::copy_n(offsets, count, room);
  const std::span<const std::byte> bytes = memory->bytes();
  storage.AddNumbers(static_cast<std::int32_t>(DType::kInt64), {static_cast<std::int64_t>(count)},
                     bytes, std::move(memory));
}

void AddColumn(const ExampleColumn& column, arrow::Field& field, BatchStorage& storage) {
  const auto rows = static_cast<std::int64_t>(field.length);
  switch (column.shape) {
    case ColumnShape::kSingle:
      return AddElements(column.type, field, {rows}, storage);
    case ColumnShape::kFixedList:
      return AddElements(column.type, field.children[0],
                         {rows, static_cast<std::int64_t>(column.length)}, storage);
    case ColumnShape::kList:
      AddElements(column.type, field.children[0], {LastBoundary(field)}, storage);
      return AddBoundaries(field, storage);
    case ColumnShape::kListOfLists: {
      arrow::Field& lists = field.children[0];
      AddElements(column.type, lists.children[0], {LastBoundary(lists)}, storage);
      AddBoundaries(lists, storage);
      return AddBoundaries(field, storage);
    }
  }
}

/// What a pass shares with the thread that reads for it.
///
/// Owner and lifetime: of both; the later one to let go deletes it. Threads: any.
class ReadAhead {
 public:
  /// The thread, until there is nothing more or nobody wants it.
  void Run(records::ExampleBatches& batches) {
    bool more = true;
    while (more) {
      Result<std::optional<arrow::Field>> read = std::optional<arrow::Field>();
      Guarded([&] { read = batches.Next(); },
              [&](ErrorKind kind, const char* what) {
                const bool no_memory = kind == ErrorKind::kNoResources;
                read = no_memory ? no_memory_ : Status(kind, what).Annotate("read a batch");
              });
      more = read.ok() && *read;
      const MutexLock lock(mutex_);
      while (!stopped_ && ready_.size() >= kReadAhead) changed_.Wait(mutex_);
      if (stopped_) return;
      if (more) {
        ready_.push_back(std::move(**read));
      } else {
        over_ = true;
        if (!read.ok()) failed_ = read.status();
      }
      changed_.NotifyAll();
    }
  }

  /// Nobody wants more.
  void Stop() {
    {
      const MutexLock lock(mutex_);
      stopped_ = true;
      ready_.clear();
    }
    changed_.NotifyAll();
  }

  /// Waits for a short while: whether `Take` would not wait any more.
  bool Await() {
    const Deadline deadline = Deadline::After(kAwaitFor);
    const MutexLock lock(mutex_);
    while (!Settled() && changed_.WaitUntil(mutex_, deadline)) {
    }
    return Settled();
  }

  /// The next rows; none at the end. A failure and the end come again when asked again.
  Result<std::optional<arrow::Field>> Take() {
    const MutexLock lock(mutex_);
    // No deadline: programs come here once `Await` has said that there is something.
    while (!Settled()) changed_.Wait(mutex_);
    if (ready_.empty()) {
      if (!failed_.ok()) return failed_;
      return std::optional<arrow::Field>();
    }
    std::optional<arrow::Field> rows = std::move(ready_.front());
    ready_.pop_front();
    changed_.NotifyAll();
    return rows;
  }

 private:
  bool Settled() const TFOS_REQUIRES(mutex_) { return over_ || !ready_.empty(); }

  /// Made where there is memory for its text.
  const Status no_memory_{ErrorKind::kNoResources, "no memory for a batch"};
  Mutex mutex_;
  CondVar changed_;
  std::deque<arrow::Field> ready_ TFOS_GUARDED_BY(mutex_);
  bool over_ TFOS_GUARDED_BY(mutex_) = false;     ///< Nothing more gets ready.
  bool stopped_ TFOS_GUARDED_BY(mutex_) = false;  ///< Nobody wants more.
  Status failed_ TFOS_GUARDED_BY(mutex_);         ///< Why it is over, if not because of the end.
};

/// One pass over the files.
///
/// Owner and lifetime: by count. The last one to let go does not wait for the thread, which may be
/// in a read of a file system that does not answer: the thread ends, and closes its file, after
/// the batch at hand. It may outlive `main`, and so it uses only what it holds itself and what is
/// never destroyed (the process's files and its log). Threads: all from any.
class Pass : public Counted<Pass> {
 public:
  explicit Pass(const std::vector<ExampleColumn>& columns) : columns_(columns) {}

  /// Starts to read.
  Status Start(const records::ExampleBatchesOptions& options) {
    const auto batches = std::make_shared<records::ExampleBatches>(options, files::ProcessFiles());
    TFOS_ASSIGN_OR_RETURN(
        std::thread reader,
        StartThread("tfos-records", [ahead = ahead_, batches] { ahead->Run(*batches); }));
    reader.detach();
    return {};
  }
  ~Pass() { ahead_->Stop(); }
  Pass(const Pass&) = delete;
  Pass& operator=(const Pass&) = delete;

  static std::int32_t Await(void* context) {
    return static_cast<Pass*>(context)->ahead_->Await() ? 0 : 1;
  }

  static void Next(void* context, tfos_batch* batch) {
    *batch = {};
    const auto work = [&] {
      auto storage = std::make_unique<BatchStorage>();
      static_cast<Pass*>(context)->Fill(*storage, *batch);
      BatchStorage::Give(std::move(storage), *batch);
    };
    Guarded(work,
            [&](ErrorKind kind, const char* what) { BatchStorage::Fail(*batch, kind, what); });
  }

 private:
  void Fill(BatchStorage& storage, tfos_batch& batch) {
    auto rows = ahead_->Take();
    if (!rows.ok()) {
      storage.ShowIn(batch, tensorflow::TfCodeOf(rows.status().kind()), rows.status().ToString());
    } else if (!*rows) {
      storage.ShowIn(batch, tensorflow::kTfOutOfRange, "the end of the files");
    } else {
      for (std::size_t i = 0; i < columns_.size(); ++i) {
        AddColumn(columns_[i], (*rows)->children[i], storage);
      }
      storage.ShowIn(batch);
    }
  }

  const std::vector<ExampleColumn> columns_;
  const std::shared_ptr<ReadAhead> ahead_ = std::make_shared<ReadAhead>();
};

/// The files, of which passes are made.
class Files : public Counted<Files> {
 public:
  explicit Files(records::ExampleBatchesOptions options) : options_(std::move(options)) {}

  static std::int32_t Open(void* context, tfos_batch_source* pass) {
    std::int32_t opened = 0;
    const auto work = [&] {
      const records::ExampleBatchesOptions& options = static_cast<Files*>(context)->options_;
      auto made = std::make_unique<Pass>(options.schema.columns);
      if (const Status started = made->Start(options); !started.ok()) {
        LogError("no pass over the files: {}", started.ToString());
        return;
      }
      *pass = {.version = TFOS_BATCH_SOURCE_VERSION,
               .context = made.release(),
               .retain = &Pass::Retain,
               .release = &Pass::Release,
               .begin = nullptr,
               .await = &Pass::Await,
               .next = &Pass::Next,
               .release_batch = &BatchStorage::Release,
               .open = nullptr};
      opened = 1;
    };
    Guarded(work, [](ErrorKind, const char*) {});  // The op says that there are no resources.
    return opened;
  }

 private:
  const records::ExampleBatchesOptions options_;
};

}  // namespace

Result<std::int64_t> RegisterRecordDataset(records::ExampleBatchesOptions options,
                                           tfos_register_function add) {
  options.on_file_end = [](const std::string& path, const records::ReadCounts& counts) {
    if (counts.bad_records == 0 && !counts.lost) return;
    LogWarning("{}: {} records read, {} bad ones left out{}; the first: {}", path, counts.records,
               counts.bad_records, counts.lost ? ", and a part of the file is lost" : "",
               counts.first_problem);
  };
  auto* const files = new Files(std::move(options));
  const tfos_batch_source source{.version = TFOS_BATCH_SOURCE_VERSION,
                                 .context = files,
                                 .retain = &Files::Retain,
                                 .release = &Files::Release,
                                 .begin = nullptr,
                                 .await = nullptr,
                                 .next = nullptr,
                                 .release_batch = nullptr,
                                 .open = &Files::Open};
  const std::int64_t handle = add(&source);
  Files::Release(files);
  if (handle != 0) return handle;
  return Status(ErrorKind::kUnsupported,
                "tfos/_tensorflow_ops.so is of another version than tfos/_native: install tfos "
                "anew");
}

}  // namespace tfos::datasets
