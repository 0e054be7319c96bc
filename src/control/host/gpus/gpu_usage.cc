#include "control/host/gpus/gpu_usage.h"

#include <fmt/ranges.h>

#include <array>
#include <charconv>

#include "base/format.h"

namespace tfos::control {
namespace {

/// What is asked for: the index, percent, MiB.
constexpr std::size_t kFields = 3;
constexpr std::size_t kLongestLine = 1024;
constexpr std::size_t kLongestQuote = 200;
constexpr std::int64_t kMostPercent = 100;
/// No GPU has as much, and its sum over any number of GPUs is a number.
constexpr std::int64_t kMostMiB = std::int64_t{1} << 30;
constexpr std::int64_t kBytesOfMiB = std::int64_t{1} << 20;

std::string_view Trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

/// False where there are more or fewer.
bool Split(std::string_view line, std::array<std::string_view, kFields>& fields) {
  for (std::size_t i = 0; i < kFields; ++i) {
    const std::size_t comma = line.find(',');
    if ((comma == std::string_view::npos) != (i + 1 == kFields)) return false;
    fields[i] = Trim(line.substr(0, comma));
    if (comma != std::string_view::npos) line.remove_prefix(comma + 1);
  }
  return true;
}

/// False for anything but a number from 0 to `most`. A GPU that does not tell it says why in
/// brackets, "[N/A]" or "[Not Supported]": then there is no number.
bool ReadNumber(std::string_view field, std::int64_t most, std::optional<std::int64_t>& number) {
  number.reset();
  if (field.starts_with('[') && field.ends_with(']')) return true;
  std::int64_t read = 0;
  const char* const end = field.data() + field.size();
  const auto [stopped, error] = std::from_chars(field.data(), end, read);
  if (error != std::errc() || stopped != end || read < 0 || read > most) return false;
  number = read;
  return true;
}

template <typename T>
void AddTo(std::optional<T>& sum, const std::optional<T>& more) {
  sum = sum.has_value() && more.has_value() ? std::optional<T>(*sum + *more) : std::nullopt;
}

}  // namespace

GpuUsageReader::GpuUsageReader(std::size_t gpus) : gpus_(gpus), lines_(kLongestLine) {}

std::vector<std::string> GpuUsageReader::Command(const std::vector<std::string>& indices) {
  return {"nvidia-smi", fmt::format("--id={}", fmt::join(indices, ",")),
          "--query-gpu=index,utilization.gpu,memory.used", "--format=csv,noheader,nounits",
          fmt::format("--loop={}", kInterval.count())};
}

Status GpuUsageReader::Add(std::string_view bytes, Clock::TimePoint now) {
  if (!broken_.ok()) return broken_;
  lines_.Append(bytes);
  while (true) {
    Result<std::optional<std::string>> line = lines_.NextLine();
    if (line.ok() && !line->has_value()) return Status::Ok();
    broken_ = line.ok() ? AddLine(Trim(**line), now) : line.status();
    if (!broken_.ok()) return broken_;
  }
}

Status GpuUsageReader::AddLine(std::string_view line, Clock::TimePoint now) {
  if (line.empty()) return Status::Ok();
  std::array<std::string_view, kFields> fields;
  std::optional<std::int64_t> percent;
  std::optional<std::int64_t> mib;
  if (!Split(line, fields) || fields[0].empty() || !ReadNumber(fields[1], kMostPercent, percent) ||
      !ReadNumber(fields[2], kMostMiB, mib)) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("nvidia-smi answered '{}'", line.substr(0, kLongestQuote)));
  }
  GpuUsage usage;
  if (percent.has_value()) usage.utilization = static_cast<double>(*percent) / kMostPercent;
  if (mib.has_value()) usage.memory_bytes = *mib * kBytesOfMiB;
  if (!answer_.emplace(fields[0], usage).second) {
    return Status(ErrorKind::kBadInput,
                  fmt::format("nvidia-smi answered for GPU {} again before it had answered for all "
                              "{} GPUs",
                              fields[0].substr(0, kLongestQuote), gpus_));
  }
  if (answer_.size() < gpus_) return Status::Ok();

  latest_ = {.utilization = 0.0, .memory_bytes = 0};
  for (const auto& [index, gpu] : answer_) {
    AddTo(latest_.utilization, gpu.utilization);
    AddTo(latest_.memory_bytes, gpu.memory_bytes);
  }
  if (latest_.utilization.has_value()) *latest_.utilization /= static_cast<double>(gpus_);
  answer_.clear();
  fresh_until_ = now + kFreshFor;
  return Status::Ok();
}

std::optional<GpuUsage> GpuUsageReader::Latest(Clock::TimePoint now) const {
  if (!broken_.ok() || now >= fresh_until_) return std::nullopt;
  return latest_;
}

}  // namespace tfos::control
