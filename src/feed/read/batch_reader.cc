#include "feed/read/batch_reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/format.h"
#include "base/logging.h"
#include "chunk/row_structure.h"
#include "feed/wire/read_position.h"

namespace tfos::feed {
namespace {

/// How long no chunk may come before the feeder gets back the memory that batches refer to.
/// Shorter would copy for nothing whenever a feeder takes a breath.
constexpr std::chrono::milliseconds kKeepingPatience{50};

constexpr std::string_view kAdvice =
    "ctx.dataset takes rows whose fields are numbers, NumPy arrays, lists of numbers of one type, "
    "strings or bytes. Make such rows before feeding them, or read them with ctx.feed.next_batch";

std::string_view KindName(chunk::RowNodeKind kind) {
  switch (kind) {
    case chunk::RowNodeKind::kNone:
      return "None";
    case chunk::RowNodeKind::kList:
      return "a list of different things";
    case chunk::RowNodeKind::kTuple:
      return "a tuple of different things";
    case chunk::RowNodeKind::kDict:
      return "a dict";
    case chunk::RowNodeKind::kSparkRow:
      return "a Row";
    default:
      return "a value";
  }
}

bool NothingCame(const Result<Next>& next) {
  return !next.ok() && next.status().kind() == ErrorKind::kRetryLater;
}

/// What the next call may not meet again: a deadline, a signal, a lack of memory.
bool MayPass(ErrorKind kind) {
  return kind == ErrorKind::kRetryLater || kind == ErrorKind::kInterrupted ||
         kind == ErrorKind::kNoResources;
}

template <typename T>
void RemoveExpired(std::vector<std::weak_ptr<T>>& pointers) {
  std::erase_if(pointers, [](const std::weak_ptr<T>& pointer) { return pointer.expired(); });
}

}  // namespace

struct BatchReader::Column {
  std::string name;
  chunk::ColumnView view;
};

/// Columns that rows are being taken from.
struct BatchReader::Chunk {
  std::vector<Column> columns;
  std::uint64_t rows = 0;
  std::shared_ptr<const void> memory;  ///< Of all columns.
  bool lendable = false;   ///< Batches may refer to the memory for as long as they like.
  bool of_feeder = false;  ///< It is a feeder's memory.
  /// What came, to be passed on to another node. Null once the feeder has its memory back.
  std::shared_ptr<LentMemory> source;

  /// The column that is wanted, most likely number `hint`, if its type is the wanted one.
  Result<const chunk::ColumnView*> Find(const columns::BatchColumnType& wanted,
                                        std::size_t hint) const;

  /// Names the columns of a chunk whose rows are flat.
  static Result<std::vector<Column>> ColumnsOf(const chunk::ChunkView& chunk);
};

struct BatchReader::LentMemory {
  ChunkLoan loan;
  PrivateView view;
};

Result<const chunk::ColumnView*> BatchReader::Chunk::Find(const columns::BatchColumnType& wanted,
                                                          std::size_t hint) const {
  auto it = columns.begin() + static_cast<std::ptrdiff_t>(std::min(hint, columns.size()));
  if (it == columns.end() || it->name != wanted.name) {
    it = std::find_if(columns.begin(), columns.end(),
                      [&](const Column& column) { return column.name == wanted.name; });
  }
  if (it == columns.end()) {
    std::vector<std::string_view> names;
    for (const Column& column : columns) names.push_back(column.name);
    return Status(ErrorKind::kBadInput, fmt::format("the rows have no column '{}'; they have {}",
                                                    wanted.name, fmt::join(names, ", ")));
  }
  TFOS_RETURN_IF_ERROR(columns::CheckBatchType(wanted, it->view));
  return &it->view;
}

Result<std::vector<BatchReader::Column>> BatchReader::Chunk::ColumnsOf(
    const chunk::ChunkView& chunk) {
  TFOS_ASSIGN_OR_RETURN(const chunk::RowNode root, chunk::ParseRowStructure(chunk));
  std::vector<Column> columns;
  const auto add = [&](const chunk::RowNode& node, std::string name) {
    columns.push_back({.name = std::move(name), .view = chunk.columns()[node.column]});
    columns.back().view.name = {};  // It would point into memory that `name` outlives.
  };
  const auto positional = [&](const chunk::RowNode& node, std::size_t position) {
    const std::string_view name = chunk.columns()[node.column].name;
    return name.empty() ? std::to_string(position) : std::string(name);
  };
  if (chunk::TakesColumn(root.kind)) {
    add(root, positional(root, 0));
    return columns;
  }
  if (root.children.empty()) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("the rows are {} and have no columns; {}",
                              root.kind == chunk::RowNodeKind::kNone ? "None" : "empty", kAdvice));
  }
  for (std::size_t i = 0; i < root.children.size(); ++i) {
    const chunk::RowNode& child = root.children[i];
    if (!chunk::TakesColumn(child.kind)) {
      const std::string name = root.keys.empty() ? std::to_string(i) : root.keys[i];
      return Status(ErrorKind::kBadInput, fmt::format("column '{}' of the rows is {}; {}", name,
                                                      KindName(child.kind), kAdvice));
    }
    add(child, root.keys.empty() ? positional(child, i) : root.keys[i]);
  }
  return columns;
}

BatchReader::BatchReader(FeedServer& server, std::string queue, Converter converter)
    : server_(server), queue_(std::move(queue)), converter_(std::move(converter)) {}

BatchReader::~BatchReader() = default;

Result<std::optional<std::vector<columns::BatchColumnType>>> BatchReader::Peek(const Wait& wait) {
  const std::lock_guard lock(mutex_);
  while (chunk_ == nullptr && !sampled_ && !ended_) TFOS_RETURN_IF_ERROR(FetchUnlessFailed(wait));
  return types_;
}

Result<BatchResult> BatchReader::Next(const BatchOptions& options, const Wait& wait) {
  if (options.rows == 0) return Status(ErrorKind::kBadInput, "a batch has at least one row");
  const std::lock_guard lock(mutex_);
  TFOS_RETURN_IF_ERROR(FillPieces(options, options.rows, wait));
  const bool last = piece_rows_ > 0 && !options.drop_remainder;
  if (piece_rows_ < options.rows && !last) return AtEnd();
  TFOS_ASSIGN_OR_RETURN(Batch batch, Assemble(options));
  return BatchResult(std::move(batch));
}

Status BatchReader::FillPieces(const BatchOptions& options, std::uint64_t rows, const Wait& wait) {
  while (piece_rows_ < rows && !EpochOver()) {
    TFOS_RETURN_IF_ERROR(chunk_ != nullptr ? TakeFromChunk(options, rows)
                                           : FetchUnlessFailed(wait));
  }
  return {};
}

Status BatchReader::TakeFromChunk(const BatchOptions& options, std::uint64_t rows) {
  // Checked now rather than when the batch is full, which a wait may come before.
  for (std::size_t i = 0; i < options.columns.size(); ++i) {
    TFOS_RETURN_IF_ERROR(chunk_->Find(options.columns[i], i).status());
  }
  TakeRows(rows - piece_rows_);
  return {};
}

Result<BatchReader::Ahead> BatchReader::LookAhead(const BatchOptions& options,
                                                  std::uint64_t batches, const Wait& wait) {
  if (options.rows == 0) return Status(ErrorKind::kBadInput, "a batch has at least one row");
  const std::lock_guard lock(mutex_);
  keep_sources_ = true;
  TFOS_RETURN_IF_ERROR(FillPieces(options, options.rows, wait));
  const std::uint64_t rows = batches * options.rows;
  while (piece_rows_ < rows && !EpochOver()) {
    if (chunk_ != nullptr) {
      TFOS_RETURN_IF_ERROR(TakeFromChunk(options, rows));
      continue;
    }
    TFOS_RETURN_IF_ERROR(failure_);
    // Not Fetch: what it does while it waits, copying and giving memory back, is for a consumer
    // that can't go on without the next chunk.
    Result<feed::Next> next = server_.Next(queue_, {.deadline = Deadline::After({})});
    if (NothingCame(next)) break;
    TFOS_RETURN_IF_ERROR(next.status());
    TFOS_RETURN_IF_ERROR(Remember(TakeNext(std::move(*next))));
  }
  return WhatIsAhead();
}

Result<BatchResult> BatchReader::EndEpoch(const Wait& wait) {
  const std::lock_guard lock(mutex_);
  for (;;) {
    DropPieces();
    if (EpochOver()) return AtEnd();
    if (chunk_ != nullptr) {
      TakeRows(chunk_->rows);
    } else {
      TFOS_RETURN_IF_ERROR(FetchUnlessFailed(wait));
    }
  }
}

BatchReader::Ahead BatchReader::WhatIsAhead() const {
  Ahead ahead{.rows = piece_rows_,
              .epoch_over = EpochOver(),
              .feed_over = epoch_ends_.empty() && chunk_ == nullptr && ended_ && !rows_in_epoch_,
              .epoch = epoch_ends_.empty() ? next_epoch_ : epoch_ends_.front()};
  for (auto piece = pieces_.rbegin(); piece != pieces_.rend(); ++piece) {
    const std::shared_ptr<LentMemory>& source = piece->chunk->source;
    if (source == nullptr || source->loan.bytes().empty()) break;
    ahead.passable_rows += piece->count;
  }
  ahead.until_read =
      std::ranges::any_of(pieces_, [](const Piece& piece) { return piece.unread != nullptr; });
  return ahead;
}

Result<BatchReader::Ahead> BatchReader::LookToEnd(const BatchOptions& options, const Wait& wait) {
  const std::lock_guard lock(mutex_);
  while (!EpochOver()) {
    if (chunk_ != nullptr) {
      TFOS_RETURN_IF_ERROR(TakeFromChunk(options, piece_rows_ + chunk_->rows));
      continue;
    }
    TFOS_RETURN_IF_ERROR(failure_);
    // Not Fetch: no feeder of this epoch waits for memory, and a copy could not be passed on.
    Result<feed::Next> next = server_.Next(queue_, wait);
    TFOS_RETURN_IF_ERROR(next.status());
    TFOS_RETURN_IF_ERROR(Remember(TakeNext(std::move(*next))));
  }
  return WhatIsAhead();
}

Status BatchReader::PassOn(std::uint64_t rows, const PassRows& pass) {
  const std::lock_guard lock(mutex_);
  while (rows > 0 && !pieces_.empty()) {
    Piece& last = pieces_.back();
    const std::uint64_t count = std::min(rows, last.count);
    const std::uint64_t end = last.first + last.count;
    const std::shared_ptr<LentMemory> source = last.chunk->source;
    if (source == nullptr) break;
    TFOS_RETURN_IF_ERROR(pass(source->loan.bytes(), {end - count, end}));
    rows -= count;
    piece_rows_ -= count;
    last.count -= count;
    if (last.count == 0) pieces_.pop_back();
  }
  return {};
}

Result<std::uint64_t> BatchReader::TakePassed(const BatchOptions& options, std::uint32_t epoch,
                                              const Wait& wait) {
  const std::lock_guard lock(mutex_);
  TFOS_ASSIGN_OR_RETURN(ChunkLoan loan, server_.NextPassed(queue_, epoch, wait));
  const std::uint64_t first = loan.first_item();
  const std::uint64_t rows = loan.items();
  std::shared_ptr<LentMemory> unread;
  Result<std::shared_ptr<Chunk>> opened = OpenChunk(std::move(loan), &unread);
  TFOS_RETURN_IF_ERROR(Remember(opened.status()));
  const std::shared_ptr<Chunk>& chunk = *opened;
  if (first > chunk->rows || rows > chunk->rows - first) {
    return Status(ErrorKind::kBadInput, fmt::format("rows [{}, {}) of a chunk of {} were passed on",
                                                    first, first + rows, chunk->rows));
  }
  for (std::size_t i = 0; i < options.columns.size(); ++i) {
    TFOS_RETURN_IF_ERROR(Remember(chunk->Find(options.columns[i], i).status()));
  }
  pieces_.push_back({.chunk = chunk, .first = first, .count = rows});
  piece_rows_ += rows;
  rows_in_epoch_ = true;
  return rows;
}

Result<std::optional<std::vector<columns::BatchColumnType>>> BatchReader::KnownColumns(
    const Wait& wait) {
  const std::lock_guard lock(mutex_);
  while (!types_ && !ended_) TFOS_RETURN_IF_ERROR(FetchUnlessFailed(wait));
  return types_;
}

void BatchReader::MarkRead(const Piece& piece, std::uint64_t count) {
  if (piece.unread == nullptr) return;
  const std::uint64_t rows = piece.first + count;
  piece.unread->loan.MarkRead(rows == piece.chunk->rows ? ReadTracker::kAllRows : rows);
}

void BatchReader::DropPieces() {
  dropped_rows_ += piece_rows_;
  for (const Piece& piece : pieces_) MarkRead(piece, piece.count);
  pieces_.clear();
  piece_rows_ = 0;
}

BatchResult BatchReader::AtEnd() {
  DropPieces();
  const bool had_rows = std::exchange(rows_in_epoch_, false);
  if (!epoch_ends_.empty()) {
    next_epoch_ = epoch_ends_.front();
    epoch_ends_.pop_front();
  } else if (!had_rows) {
    return EndOfFeed{};
  }
  ++epochs_;
  return EndOfEpoch{.epoch = next_epoch_++};
}

void BatchReader::TakeRows(std::uint64_t count) {
  count = std::min(count, chunk_->rows - next_row_);
  pieces_.push_back({.chunk = chunk_, .first = next_row_, .count = count, .unread = unread_});
  piece_rows_ += count;
  rows_in_epoch_ = true;
  next_row_ += count;
  if (next_row_ < chunk_->rows) return;
  chunk_.reset();
  unread_.reset();
}

Result<Batch> BatchReader::Assemble(const BatchOptions& options) {
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
      const Chunk& chunk = *used[k].chunk;
      TFOS_ASSIGN_OR_RETURN(const chunk::ColumnView* column, chunk.Find(wanted, i));
      parts[k] = {.column = column,
                  .first = used[k].first,
                  .count = used[k].count,
                  .memory = chunk.lendable ? chunk.memory : nullptr};
    }
    TFOS_ASSIGN_OR_RETURN(columns::BatchColumn column,
                          columns::GatherColumn(pool_, parts, wanted.encoding));
    batch.columns.push_back(std::move(column));
  }
  piece_rows_ -= batch.rows;
  for (const Piece& piece : used) {
    MarkRead(piece, piece.count);
    Piece& front = pieces_.front();
    front.first += piece.count;
    front.count -= piece.count;
    if (front.count == 0) pieces_.pop_front();
  }
  return batch;
}

Status BatchReader::FetchUnlessFailed(const Wait& wait) {
  TFOS_RETURN_IF_ERROR(failure_);
  return Remember(Fetch(wait));
}

Status BatchReader::Remember(Status status) {
  if (!status.ok() && !MayPass(status.kind())) failure_ = status;
  return status;
}

/// Takes the next thing from the queue, when there is no chunk.
Status BatchReader::Fetch(const Wait& wait) {
  const auto within = [](Clock::Duration duration) {
    return Wait{.deadline = Deadline::After(duration)};
  };
  Result<feed::Next> next = server_.Next(queue_, within(Clock::Duration::zero()));
  const bool tells =
      std::ranges::any_of(pieces_, [](const Piece& piece) { return piece.unread != nullptr; });
  // Rows that go on to count as unread are not lost with the node.
  if (NothingCame(next) && tells) next = server_.Next(queue_, within(kKeepingPatience));
  if (NothingCame(next)) {
    // Whatever it holds itself is a feeder's memory.
    TFOS_RETURN_IF_ERROR(CopyPieces());
    RemoveExpired(lent_);
    if (!lent_.empty()) {
      next = server_.Next(queue_, within(kKeepingPatience));
      if (NothingCame(next)) DetachLent();
    }
    if (NothingCame(next)) next = server_.Next(queue_, wait);
  }
  TFOS_RETURN_IF_ERROR(next.status());
  return TakeNext(std::move(*next));
}

Status BatchReader::TakeNext(feed::Next next) {
  if (auto* loan = std::get_if<ChunkLoan>(&next); loan != nullptr && loan->mode() == Mode::kTrain) {
    return TakeChunk(std::move(*loan));
  }
  if (const auto* end = std::get_if<EndOfEpoch>(&next)) {
    epoch_ends_.push_back(end->epoch);
    return Status::Ok();
  }
  if (std::holds_alternative<EndOfFeed>(next)) {
    ended_ = true;
    return Status::Ok();
  }
  return {ErrorKind::kBadInput,
          fmt::format("queue '{}' is fed by inference, whose rows want answers: read them with "
                      "ctx.data_feed(train=False)",
                      queue_)};
}

Status BatchReader::TakeChunk(ChunkLoan loan) {
  const bool sample = loan.is_sample();
  const std::uint64_t rows_read = loan.rows_read();
  std::shared_ptr<LentMemory> unread;
  TFOS_ASSIGN_OR_RETURN(std::shared_ptr<Chunk> chunk, OpenChunk(std::move(loan), &unread));
  sampled_ = sample;
  if (chunk->rows <= rows_read && !sample) return Status::Ok();
  types_.emplace();
  for (const Column& column : chunk->columns)
    types_->push_back(columns::BatchTypeOf(column.name, column.view));
  if (sample) return Status::Ok();
  chunk_ = std::move(chunk);
  unread_ = std::move(unread);
  next_row_ = rows_read;
  return Status::Ok();
}

Result<std::shared_ptr<BatchReader::Chunk>> BatchReader::OpenChunk(
    ChunkLoan loan, std::shared_ptr<LentMemory>* unread) {
  auto chunk = std::make_shared<Chunk>();
  auto lent = std::make_shared<LentMemory>();
  std::span<const std::byte> bytes = loan.bytes();
  const bool of_feeder = !loan.is_private();
  chunk->lendable = !of_feeder;
  // What has to be converted needs no mapping of its own: it is read once, and here.
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
  if (loan.until_read()) *unread = lent;
  const std::uint64_t rows_read = loan.is_sample() ? 0 : loan.rows_read();
  lent->loan = std::move(loan);
  chunk->memory = lent;
  TFOS_ASSIGN_OR_RETURN(chunk::ChunkView view, chunk::ChunkView::Parse(bytes));
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
  if (chunk->rows <= rows_read) return chunk;
  TFOS_ASSIGN_OR_RETURN(chunk->columns, Chunk::ColumnsOf(view));
  return chunk;
}

/// The columns of a chunk of another kind.
Result<columns::HeldBytes> BatchReader::Convert(const chunk::ChunkView& view,
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

bool BatchReader::MayLend() {
  RemoveExpired(lent_);
  RemoveExpired(detached_);
  return detached_.empty();
}

/// Gives the feeders back what only batches refer to.
void BatchReader::DetachLent() {
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

/// Makes the rows that wait for the rest of their batch independent of the feeders' memory.
Status BatchReader::CopyPieces() {
  for (Piece& piece : pieces_) {
    MarkRead(piece, piece.count);
    piece.unread.reset();
    if (!piece.chunk->of_feeder) {
      if (piece.chunk->source == nullptr) continue;
      // Only what it was converted from is the feeder's memory.
      auto without_source = std::make_shared<Chunk>(*piece.chunk);
      without_source->source.reset();
      piece.chunk = std::move(without_source);
      continue;
    }
    auto copy = std::make_shared<Chunk>();
    auto memory = std::make_shared<std::vector<columns::HeldBytes>>();
    for (const Column& column : piece.chunk->columns) {
      TFOS_ASSIGN_OR_RETURN(
          columns::OwnColumn own,
          columns::CopyColumn(
              pool_, {.column = &column.view, .first = piece.first, .count = piece.count}));
      copy->columns.push_back({.name = column.name, .view = std::move(own.view)});
      std::ranges::move(own.memory, std::back_inserter(*memory));
    }
    copy->rows = piece.count;
    copy->memory = std::move(memory);
    copy->lendable = true;
    piece = {.chunk = std::move(copy), .first = 0, .count = piece.count};
  }
  return Status::Ok();
}

}  // namespace tfos::feed
