#include "feed/node/session/chunk_loan.h"

#include <utility>

namespace tfos::feed {

struct ChunkLoan::Rep {
  Rep() = default;
  Rep(const Rep&) = delete;
  Rep& operator=(const Rep&) = delete;
  ~Rep() {
    if (lender != nullptr) lender->Release(chunk.session, chunk.number);
  }

  std::shared_ptr<ChunkLender> lender;          ///< Null when cached.
  std::shared_ptr<const AlignedBuffer> cached;  ///< Null when a feeder's.
  QueuedChunk chunk;
  LentPartition partition;
};

ChunkLoan::ChunkLoan(std::shared_ptr<ChunkLender> lender, const QueuedChunk& chunk,
                     const LentPartition& partition)
    : rep_(std::make_shared<Rep>()) {
  rep_->lender = std::move(lender);
  rep_->chunk = chunk;
  rep_->partition = partition;
}

ChunkLoan::ChunkLoan(CachedEpoch::Chunk cached) : rep_(std::make_shared<Rep>()) {
  rep_->cached = std::move(cached.memory);
  rep_->chunk = {.bytes = rep_->cached->bytes(), .items = cached.items};
}

ChunkLoan& ChunkLoan::operator=(ChunkLoan&& other) noexcept {
  rep_ = std::move(other.rep_);
  return *this;
}

std::span<const std::byte> ChunkLoan::bytes() const {
  return rep_ == nullptr ? std::span<const std::byte>() : rep_->chunk.bytes;
}
bool ChunkLoan::is_private() const { return rep_ != nullptr && rep_->cached != nullptr; }
Result<PrivateView> ChunkLoan::MapPrivately() const {
  return rep_->lender->MapPrivately(rep_->chunk);
}
std::uint64_t ChunkLoan::items() const { return rep_ == nullptr ? 0 : rep_->chunk.items; }
std::uint64_t ChunkLoan::first_item() const { return rep_ == nullptr ? 0 : rep_->chunk.first; }
std::uint64_t ChunkLoan::session() const { return rep_ == nullptr ? 0 : rep_->chunk.session; }
std::uint32_t ChunkLoan::partition() const {
  return rep_ == nullptr ? 0 : rep_->partition.key.partition;
}
bool ChunkLoan::is_cached() const { return rep_ != nullptr && rep_->lender == nullptr; }
JobId ChunkLoan::job() const { return rep_ == nullptr ? JobId() : rep_->partition.key.job; }
AttemptId ChunkLoan::attempt() const { return rep_ == nullptr ? 0 : rep_->partition.attempt; }
std::uint32_t ChunkLoan::checksum() const { return rep_ == nullptr ? 0 : rep_->chunk.checksum; }
Mode ChunkLoan::mode() const { return rep_ == nullptr ? Mode::kTrain : rep_->partition.mode; }
std::uint64_t ChunkLoan::rows_read() const { return rep_ == nullptr ? 0 : rep_->chunk.rows_read; }
const ItemRanges& ChunkLoan::trained_before() const {
  static const ItemRanges none;
  return rep_ == nullptr || rep_->chunk.trained_before == nullptr ? none
                                                                  : *rep_->chunk.trained_before;
}
bool ChunkLoan::is_sample() const { return rep_ != nullptr && IsSample(rep_->chunk); }
bool ChunkLoan::until_read() const { return rep_ != nullptr && rep_->partition.until_read; }
void ChunkLoan::MarkRead(std::uint64_t rows) const {
  if (until_read()) rep_->lender->MarkRead(rep_->chunk.session, rep_->chunk.number, rows);
}
void ChunkLoan::Release() { rep_.reset(); }

}  // namespace tfos::feed
