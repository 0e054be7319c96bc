#include "columns/pickle/number_runs.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "base/memory/unaligned.h"

namespace tfos::columns {
namespace {

chunk::DType NumberDType(PickleKind kind) {
  if (kind == PickleKind::kFloat) return chunk::DType::kFloat64;
  return kind == PickleKind::kInt ? chunk::DType::kInt64 : chunk::DType::kBool;
}

template <typename T>
std::byte* Put(T value, std::byte* to) {
  Store(value, to);
  return to + sizeof value;
}

/// Writes the numbers of a run, which are of `dtype`; returns what follows them.
std::byte* WriteNumbers(const PickleRun& run, chunk::DType dtype, std::byte* to) {
  switch (run.form) {
    case PickleRun::Form::kFloats:
      for (std::uint64_t i = 0; i < run.size; ++i) {
        to = Put(run.Float(i), to);
      }
      return to;
    case PickleRun::Form::kInts:
      std::memcpy(to, run.ints, run.size * sizeof(std::int64_t));
      return to + run.size * sizeof(std::int64_t);
    case PickleRun::Form::kValues:
      break;
  }
  const std::span<const PickleValue> values(run.values, run.size);
  if (dtype == chunk::DType::kBool) {
    for (const PickleValue& value : values) *to++ = static_cast<std::byte>(value.number);
  } else if (dtype == chunk::DType::kInt64) {
    for (const PickleValue& value : values) to = Put(value.number, to);
  } else {
    for (const PickleValue& value : values) to = Put(value.real, to);
  }
  return to;
}

}  // namespace

chunk::DType NumbersOf(const PickleRun& run) {
  switch (run.form) {
    case PickleRun::Form::kFloats:
      return chunk::DType::kFloat64;
    case PickleRun::Form::kInts:
      return chunk::DType::kInt64;
    case PickleRun::Form::kValues:
      break;
  }
  const PickleKind kind = run.values[0].kind;
  const std::span<const PickleValue> values(run.values, run.size);
  const bool all = IsNumber(kind) && std::all_of(values.begin(), values.end(),
                                                 [&](const auto& v) { return v.kind == kind; });
  return all ? NumberDType(kind) : chunk::DType::kNone;
}

bool AllNumbersOf(const PickleSequence& items, chunk::DType dtype) {
  return AllRuns(items, [&](const PickleRun& run) { return NumbersOf(run) == dtype; });
}

std::byte* WriteNumbers(const PickleSequence& items, chunk::DType dtype, std::byte* to) {
  AllRuns(items, [&](const PickleRun& run) {
    to = WriteNumbers(run, dtype, to);
    return true;
  });
  return to;
}

}  // namespace tfos::columns
