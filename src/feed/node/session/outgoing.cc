#include "feed/node/session/outgoing.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "feed/wire/frame.h"

namespace tfos::feed {

void Outgoing::Post(Line& line, OutFrame frame) {
  if (line.last_word_) return;
  line.plain_bytes_ += frame.bytes.size();
  line.posted_.push_back(std::move(frame));
  List(line);
}

void Outgoing::PostLast(Line& line, std::string frame) {
  Post(line, {.bytes = std::move(frame)});
  line.last_word_ = true;
}

void Outgoing::PostProgress(Line& line) {
  if (line.last_word_) return;
  line.progress_ = true;
  List(line);
}

void Outgoing::AddCredits(Line& line, std::uint32_t credits) {
  if (line.last_word_) return;
  line.credits_ += credits;
  List(line);
}

void Outgoing::List(Line& line) {
  if (std::exchange(line.listed_, true)) return;
  if (changed_.empty()) news_ = true;
  changed_.push_back(line.id);
}

bool Outgoing::TakeNews() { return std::exchange(news_, false); }

std::vector<std::uint64_t> Outgoing::TakeChanged() { return std::exchange(changed_, {}); }

std::vector<OutFrame> Outgoing::Take(Line& line, const AcceptedBytes& accepted) {
  line.listed_ = false;
  line.plain_bytes_ = 0;
  std::vector<OutFrame> frames;
  if (const std::uint32_t credits = std::exchange(line.credits_, 0); credits > 0) {
    frames.push_back({.bytes = Encode(CreditMessage{.chunks = credits, .accepted = accepted})});
  }
  if (std::exchange(line.progress_, false)) frames.push_back({.bytes = EncodeProgress()});
  std::ranges::move(std::exchange(line.posted_, {}), std::back_inserter(frames));
  return frames;
}

}  // namespace tfos::feed
