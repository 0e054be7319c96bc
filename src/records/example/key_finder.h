#ifndef TFOS_RECORDS_EXAMPLE_KEY_FINDER_H_
#define TFOS_RECORDS_EXAMPLE_KEY_FINDER_H_

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tfos::records {

/// Which column a key belongs to. Keys mostly come in the order of the record before, so it looks
/// there first, and hashes only when that was wrong.
///
/// Owner and lifetime: borrows the names, which must outlive it. Threads: one at a time.
class KeyFinder {
 public:
  static constexpr int kNone = -1;

  /// Makes `name` known, as `column`.
  void Add(std::string_view name, int column) { columns_.emplace(name, column); }

  /// The next keys are those of another record.
  void BeginRecord() { position_ = 0; }

  /// The column of the record's next key; kNone if it has none.
  int Find(std::string_view key) {
    if (position_ < order_.size() && order_[position_].key == key) {
      return order_[position_++].column;
    }
    return FindAnew(key);
  }

 private:
  // More are not remembered, and neither are longer ones: they come from the file.
  static constexpr std::size_t kMostPositions = 4'096;
  static constexpr std::size_t kLongestUnknownKey = 256;

  /// A key and its column, as it was found here last.
  struct Position {
    std::string_view key;  ///< One of the names, or `unknown`.
    int column = kNone;
    std::string unknown;
  };

  int FindAnew(std::string_view key) {
    const auto found = columns_.find(key);
    const bool known = found != columns_.end();
    if (known || key.size() <= kLongestUnknownKey) {
      if (position_ == order_.size() && position_ < kMostPositions) order_.emplace_back();
      if (position_ < order_.size()) {
        Position& position = order_[position_];
        if (!known) position.unknown.assign(key);
        position.key = known ? found->first : std::string_view(position.unknown);
        position.column = known ? found->second : kNone;
      }
    }
    ++position_;
    return known ? found->second : kNone;
  }

  std::unordered_map<std::string_view, int> columns_;
  std::deque<Position> order_;  // Of addresses that stay: keys point into it.
  std::size_t position_ = 0;
};

}  // namespace tfos::records

#endif  // TFOS_RECORDS_EXAMPLE_KEY_FINDER_H_
