#include "parameter_server/model/rule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/format.h"
#include "base/memory/half.h"
#include "base/memory/unaligned.h"
#include "base/text/choice.h"

namespace tfos::parameter_server {
namespace {

constexpr Choice<Combiner> kCombiners[] = {{"delta", Combiner::kDelta},
                                           {"mean", Combiner::kMean},
                                           {"update-mean", Combiner::kUpdateMean},
                                           {"sgd", Combiner::kSgd},
                                           {"adam", Combiner::kAdam}};

/// What is calculated in.
template <typename T>
struct Wide {
  using Type = T;
  static T From(T value) { return value; }
  static T Back(T value) { return value; }
};

template <typename T>
  requires std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>
struct Wide<T> {
  using Type = float;
  static float From(T value) { return value.ToFloat(); }
  static T Back(float value) { return T::FromFloat(value); }
};

/// to = operation(a, b) for each element.
template <typename T, typename Operation>
void ForEach(const std::byte* a, const std::byte* b, std::byte* to, std::size_t bytes,
             Operation operation) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
    Store(operation(Load<T>(a + i), Load<T>(b + i)), to + i);
  }
}

bool IsWhole(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

/// Calls `function` with a value of the element's type, which has fractions.
template <typename Function>
void WithFloatingType(DType dtype, Function function) {
  switch (dtype) {
    case DType::kFloat32:
      return function(float{});
    case DType::kFloat64:
      return function(double{});
    case DType::kFloat16:
      return function(Float16{});
    case DType::kBfloat16:
      return function(Bfloat16{});
    case DType::kInt32:
    case DType::kInt64:
    case DType::kBytes:
      return;
  }
}

/// Calls `function` with a value of the element's type.
template <typename Function>
void WithType(DType dtype, Function function) {
  if (dtype == DType::kInt32) return function(std::int32_t{});
  if (dtype == DType::kInt64) return function(std::int64_t{});
  WithFloatingType(dtype, function);
}

template <typename T>
T Plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    return Wide<T>::Back(Wide<T>::From(a) + Wide<T>::From(b));
  }
}

template <typename T>
T Minus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<Unsigned>(a) - static_cast<Unsigned>(b));
  } else {
    return Wide<T>::Back(Wide<T>::From(a) - Wide<T>::From(b));
  }
}

template <typename T>
void CombineMean(double count, const Combined& e) {
  using Number = typename Wide<T>::Type;
  const auto n = static_cast<Number>(count);
  ForEach<T>(e.values.data(), e.pushed.data(), e.values.data(), e.values.size(),
             [n](T server, T got) {
               return Wide<T>::Back(((n - 1) * Wide<T>::From(server) + Wide<T>::From(got)) / n);
             });
}

/// The same mean, which leaves weights that nobody changes as they are to the last bit.
template <typename T>
void MoveTo(double count, const Combined& e) {
  const auto n = static_cast<typename Wide<T>::Type>(count);
  ForEach<T>(e.values.data(), e.pushed.data(), e.values.data(), e.values.size(),
             [n](T server, T got) {
               const auto from = Wide<T>::From(server);
               return Wide<T>::Back(from + (Wide<T>::From(got) - from) / n);
             });
}

template <typename T>
void Descend(const Rule& rule, const Combined& e) {
  const auto rate = static_cast<T>(rule.learning_rate);
  const auto momentum = static_cast<T>(rule.momentum);
  if (rule.slots() == 0) {
    ForEach<T>(e.values.data(), e.pushed.data(), e.values.data(), e.values.size(),
               [rate](T value, T gradient) { return value - rate * gradient; });
    return;
  }
  ForEach<T>(e.slots[0].data(), e.pushed.data(), e.slots[0].data(), e.values.size(),
             [=](T velocity, T gradient) { return velocity * momentum - rate * gradient; });
  if (!rule.nesterov) {
    ForEach<T>(e.values.data(), e.slots[0].data(), e.values.data(), e.values.size(),
               [](T value, T velocity) { return value + velocity; });
    return;
  }
  for (std::size_t i = 0; i + sizeof(T) <= e.values.size(); i += sizeof(T)) {
    const T step = Load<T>(e.slots[0].data() + i) * momentum - Load<T>(e.pushed.data() + i) * rate;
    Store(Load<T>(e.values.data() + i) + step, e.values.data() + i);
  }
}

// D. Kingma, J. Ba, "Adam: A Method for Stochastic Optimization", 2015, section 2, last paragraph.
template <typename T>
void AdamStep(const Rule& rule, std::uint64_t step, const Combined& e) {
  const auto t = static_cast<double>(step);
  const auto rate = static_cast<T>(rule.learning_rate * std::sqrt(1 - std::pow(rule.beta_2, t)) /
                                   (1 - std::pow(rule.beta_1, t)));
  const auto keep_1 = static_cast<T>(1 - rule.beta_1);
  const auto keep_2 = static_cast<T>(1 - rule.beta_2);
  const auto epsilon = static_cast<T>(rule.epsilon);
  std::byte* const first = e.slots[0].data();
  std::byte* const second = e.slots[1].data();
  for (std::size_t i = 0; i + sizeof(T) <= e.values.size(); i += sizeof(T)) {
    const T gradient = Load<T>(e.pushed.data() + i);
    T m = Load<T>(first + i);
    T v = Load<T>(second + i);
    m += (gradient - m) * keep_1;
    v += (gradient * gradient - v) * keep_2;
    Store(m, first + i);
    Store(v, second + i);
    Store(Load<T>(e.values.data() + i) - m * rate / (std::sqrt(v) + epsilon), e.values.data() + i);
  }
}

}  // namespace

Result<Combiner> CombinerFrom(std::string_view name) {
  return ChoiceNamed("the combiner", kCombiners, name);
}

std::size_t Rule::slots() const {
  if (combiner == Combiner::kAdam) return 2;
  return combiner == Combiner::kSgd && momentum > 0 ? 1 : 0;
}

Status Rule::Check(std::span<const Variable> variables) const {
  const auto bad = [](std::string why) { return Status(ErrorKind::kBadInput, std::move(why)); };
  const bool gradients = combiner == Combiner::kSgd || combiner == Combiner::kAdam;
  for (const double number : {learning_rate, momentum, beta_1, beta_2, epsilon}) {
    if (!std::isfinite(number) || number < 0) {
      return bad(fmt::format("{} among the numbers of an optimizer", number));
    }
  }
  if (combiner < Combiner::kDelta || combiner > Combiner::kAdam) return bad("an unknown combiner");
  const bool averages = std::ranges::any_of(variables, &Variable::averaged);
  if (averages && combiner != Combiner::kDelta) return bad("statistics where nothing is added");
  if ((averages || combiner == Combiner::kMean) && workers == 0) return bad("a mean of no workers");
  const bool means = combiner == Combiner::kMean || combiner == Combiner::kUpdateMean;
  const auto has_no_mean = [&](const Variable& variable) {
    return IsWhole(variable.dtype) && (means || variable.averaged);
  };
  if (std::ranges::any_of(variables, has_no_mean)) {
    return bad(
        "whole numbers have no mean: a counter would stand still. Cast them to floating point, "
        "leave them out, or have changes added with \"delta\"");
  }
  if (momentum >= 1 || beta_1 >= 1 || beta_2 >= 1) {
    return bad("momentum, beta_1 and beta_2 must be less than 1");
  }
  const auto calculable = [](const Variable& variable) {
    return variable.dtype == DType::kFloat32 || variable.dtype == DType::kFloat64;
  };
  if (gradients && !std::ranges::all_of(variables, calculable)) {
    return bad("an optimizer of a parameter server is for float32 and float64 only");
  }
  return {};
}

void Combine(const Rule& rule, std::uint64_t step, const Combined& elements) {
  const bool wide = elements.dtype == DType::kFloat64;
  switch (rule.combiner) {
    case Combiner::kDelta:
      if (elements.averaged) {
        return WithFloatingType(elements.dtype,
                                [&]<typename T>(T) { MoveTo<T>(rule.workers, elements); });
      }
      return collective::AddElements(elements.dtype, elements.pushed, elements.values);
    case Combiner::kMean:
      return WithFloatingType(elements.dtype,
                              [&]<typename T>(T) { CombineMean<T>(rule.workers, elements); });
    case Combiner::kUpdateMean:
      return WithFloatingType(elements.dtype,
                              [&]<typename T>(T) { CombineMean<T>(step == 1 ? 1 : 2, elements); });
    case Combiner::kSgd:
      return wide ? Descend<double>(rule, elements) : Descend<float>(rule, elements);
    case Combiner::kAdam:
      return wide ? AdamStep<double>(rule, step, elements) : AdamStep<float>(rule, step, elements);
  }
}

void Subtract(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
              std::span<std::byte> to) {
  WithType(dtype, [&]<typename T>(T) {
    ForEach<T>(a.data(), b.data(), to.data(), to.size(), [](T x, T y) { return Minus(x, y); });
  });
}

void Add(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b,
         std::span<std::byte> to) {
  WithType(dtype, [&]<typename T>(T) {
    ForEach<T>(a.data(), b.data(), to.data(), to.size(), [](T x, T y) { return Plus(x, y); });
  });
}

}  // namespace tfos::parameter_server
