#include "base/profile/stack_profile.h"

#include <algorithm>

#include "base/format.h"
#include "base/text/json_fields.h"
#include "base/text/utf8.h"

namespace tfos {
namespace {

constexpr std::size_t kNumbersOfACall = 3;

/// As the text has it: three numbers for each call.
struct Wire {
  StackProfile profile;
  std::vector<std::int64_t> calls;
};

bool IsFrame(std::int64_t frame, const StackProfile& profile) {
  return frame >= 0 && static_cast<std::size_t>(frame) < profile.frames.size();
}

/// What is wrong with it; empty: nothing.
std::string Wrong(const Wire& wire) {
  const StackProfile& profile = wire.profile;
  if (profile.frames.size() > StackProfile::kMostFrames) return "it has too many frames";
  if (wire.calls.size() % kNumbersOfACall != 0 ||
      wire.calls.size() / kNumbersOfACall > StackProfile::kMostCalls) {
    return "'calls' are not three numbers each, or too many";
  }
  if (profile.cpu_seconds.size() > StackProfile::kMostNumbers ||
      profile.counters.size() > StackProfile::kMostNumbers) {
    return "it has too many numbers";
  }
  for (const StackProfile::Frame& frame : profile.frames) {
    if (frame.name.size() > StackProfile::kLongestText ||
        frame.file.size() > StackProfile::kLongestText) {
      return "a frame's text is too long";
    }
  }
  return {};
}

}  // namespace

template <typename F, DescribedAs<StackProfile::Frame> M>
void Describe(F& f, M& m) {
  f.Required("name", m.name);
  f.Required("file", m.file);
  f.Required("line", m.line, JsonRange{0});
}

template <typename F, DescribedAs<Wire> M>
void Describe(F& f, M& m) {
  f.Required("elapsed_us", m.profile.elapsed_us, JsonRange{0, StackProfile::kLongestUs});
  f.Required("samples", m.profile.samples, JsonRange{0, StackProfile::kLongestUs});
  f.Required("frames", m.profile.frames);
  f.Required("calls", m.calls, JsonRange{-1, StackProfile::kLongestUs});
  f.Required("cpu_seconds", m.profile.cpu_seconds);
  f.Required("counters", m.profile.counters);
}

Result<StackProfile> StackProfile::Parse(std::string_view text) {
  const auto bad = [](const std::string& why) {
    return Status(ErrorKind::kBadInput, "a profile can't be read: " + why);
  };
  TFOS_ASSIGN_OR_RETURN(const Json json, ParseJsonObject(text, kMostBytes, "a profile"));
  Wire wire;
  JsonReader reader(json);
  Describe(reader, wire);
  if (!reader.error().empty()) return bad(reader.error());
  if (const std::string wrong = Wrong(wire); !wrong.empty()) return bad(wrong);
  StackProfile profile = std::move(wire.profile);
  std::vector<int> depths;
  for (std::size_t i = 0; i < wire.calls.size(); i += kNumbersOfACall) {
    const std::int64_t parent = wire.calls[i];
    const std::int64_t frame = wire.calls[i + 1];
    const std::int64_t own_us = wire.calls[i + 2];
    if (parent >= static_cast<std::int64_t>(profile.calls.size()) || !IsFrame(frame, profile) ||
        own_us < 0) {
      return bad(fmt::format("call {} is wrong", i / kNumbersOfACall));
    }
    depths.push_back(parent < 0 ? 0 : depths[static_cast<std::size_t>(parent)] + 1);
    if (depths.back() > kMostDepth) return bad("a stack is too deep");
    profile.calls.push_back(
        {.parent = static_cast<int>(parent), .frame = static_cast<int>(frame), .own_us = own_us});
  }
  return profile;
}

std::string StackProfile::Serialize() const {
  Wire wire{.profile = *this, .calls = {}};
  for (const Call& call : calls) {
    wire.calls.insert(wire.calls.end(), {call.parent, call.frame, call.own_us});
  }
  JsonWriter writer;
  Describe(writer, wire);
  return WriteJsonLine(writer.Take());
}

int StackProfileBuilder::FrameOf(StackProfile::Frame frame) {
  for (std::string* text : {&frame.name, &frame.file}) {
    // The end of a path says more.
    if (text->size() <= StackProfile::kLongestText) continue;
    std::size_t begin = text == &frame.file ? text->size() - StackProfile::kLongestText : 0;
    // Not within a character.
    while ((static_cast<unsigned char>((*text)[begin]) & 0xc0) == 0x80) ++begin;
    std::size_t end = std::min(begin + StackProfile::kLongestText, text->size());
    while (end < text->size() && (static_cast<unsigned char>((*text)[end]) & 0xc0) == 0x80) --end;
    *text = text->substr(begin, end - begin);
  }
  if (const auto known = frames_.find(frame); known != frames_.end()) return known->second;
  if (profile_.frames.size() >= most_frames_) return -1;
  const int number = static_cast<int>(profile_.frames.size());
  profile_.frames.push_back(frame);
  frames_.emplace(std::move(frame), number);
  return number;
}

int StackProfileBuilder::CallOf(int parent, int frame) {
  if (frame < 0) return parent;
  if (const auto known = calls_.find({parent, frame}); known != calls_.end()) return known->second;
  if (profile_.calls.size() >= most_calls_) return parent;
  const int number = static_cast<int>(profile_.calls.size());
  profile_.calls.push_back({.parent = parent, .frame = frame});
  calls_.emplace(std::pair(parent, frame), number);
  return number;
}

void StackProfileBuilder::AddTime(int call, std::int64_t us) {
  if (call >= 0) profile_.calls[static_cast<std::size_t>(call)].own_us += us;
}

void StackProfileBuilder::Merge(const StackProfile& other) {
  profile_.elapsed_us += other.elapsed_us;
  profile_.samples += other.samples;
  for (const auto& [name, seconds] : other.cpu_seconds) profile_.cpu_seconds[name] += seconds;
  for (const auto& [name, growth] : other.counters) profile_.counters[name] += growth;
  std::vector<int> calls;
  for (const StackProfile::Call& call : other.calls) {
    const int parent = call.parent < 0 ? -1 : calls[static_cast<std::size_t>(call.parent)];
    const int frame = FrameOf(other.frames[static_cast<std::size_t>(call.frame)]);
    // Below a thread that is one too many, a call would become a thread.
    const bool lost = call.parent >= 0 && parent < 0;
    calls.push_back(lost ? -1 : CallOf(parent, frame));
    AddTime(calls.back(), call.own_us);
  }
}

}  // namespace tfos
