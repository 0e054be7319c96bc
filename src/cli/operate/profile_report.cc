#include "cli/operate/profile_report.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/printable.h"
#include "base/text/json_fields.h"

namespace tfos::cli {
namespace {

using Frame = StackProfile::Frame;

constexpr std::string_view kMainThread = "MainThread";
constexpr std::string_view kProgram = "the program's own Python";
constexpr std::string_view kOps = "operations of TensorFlow, and graphs";
constexpr std::string_view kTracing = "tracing (making a graph of Python)";
/// Rows of a table.
constexpr std::size_t kMostRows = 10;
/// Below it a share is not worth a row.
constexpr double kLeastShare = 0.001;
/// From this share on, a node mostly waits.
constexpr double kMostly = 0.5;
/// From so many steps on, what a step takes is more than a guess.
constexpr double kFewSteps = 3;
/// Below it, a look at how a program takes batches says nothing.
constexpr double kLeastWatched = 1e-6;

struct Part {
  std::string_view in_path;
  std::string_view what;
};
/// Whatever is called by code of these files is theirs. Those at the beginning count first.
constexpr std::array kParts = {
    Part{"/tfos/keras/checkpoint/", "checkpoints"},
    Part{"/keras/src/saving/", "checkpoints"},
    Part{"/tensorflow/python/checkpoint/", "checkpoints"},
    Part{"/tensorflow/python/saved_model/", "checkpoints"},
    Part{"/tensorflow/python/training/saver.py", "checkpoints"},
    Part{"/tfos/collective/", "collective operations"},
    Part{"/tfos/feed/", "reading rows of the feed"},
    Part{"/tensorflow/python/data/", "the input pipeline (tf.data)"},
};

bool Has(const Frame& frame, std::string_view in_path) {
  return frame.file.find(in_path) != std::string::npos;
}

bool IsTensorFlow(const Frame& frame) {
  return Has(frame, "/tensorflow/") || Has(frame, "/keras/") || Has(frame, "/tf_keras/");
}

/// What runs native code of TensorFlow.
bool RunsOps(const Frame& frame) {
  return Has(frame, "/tensorflow/python/eager/execute.py") ||
         Has(frame, "/tensorflow/python/ops/gen_") ||
         Has(frame, "/tensorflow/python/eager/context.py") ||
         Has(frame, "/tensorflow/python/framework/ops.py");
}

/// Neither of a library nor of Python itself, nor what autograph makes of the program to trace it:
/// that counts for the function that called it.
bool IsProgram(const Frame& frame) {
  return !frame.file.empty() && !Has(frame, "/site-packages/") && !Has(frame, "/dist-packages/") &&
         !Has(frame, "/lib/python") && !Has(frame, "/tfos/node/") && !Has(frame, "/tfos/keras/") &&
         !Has(frame, "/tfos/feed/") && !Has(frame, "/tfos/collective/") &&
         !Has(frame, "/__autograph_generated_file") && !frame.file.starts_with("<frozen") &&
         frame.file != "<string>";
}

/// The frames of a call, the innermost one first, without the thread.
std::vector<const Frame*> StackOf(const StackProfile& profile, std::size_t call) {
  std::vector<const Frame*> stack;
  for (auto at = static_cast<int>(call); at >= 0;) {
    const StackProfile::Call& here = profile.calls[static_cast<std::size_t>(at)];
    if (here.parent >= 0) stack.push_back(&profile.frames[static_cast<std::size_t>(here.frame)]);
    at = here.parent;
  }
  return stack;
}

/// Of `tf.numpy_function`, `tf.py_function` and datasets of generators.
bool IsCalledByGraph(const std::vector<const Frame*>& stack) {
  return std::ranges::any_of(stack, [](const Frame* frame) {
    return Has(*frame, "/tensorflow/python/ops/script_ops.py");
  });
}

std::string_view WhatIsDone(const std::vector<const Frame*>& stack) {
  const auto program = std::ranges::find_if(stack, [](const Frame* f) { return IsProgram(*f); });
  const auto below = std::ranges::subrange(stack.begin(), program);
  // Modules run code of all kinds as they are imported, so this comes first.
  if (std::ranges::any_of(below, [](const Frame* frame) {
        return frame->file.starts_with("<frozen importlib.");
      })) {
    return "importing modules";
  }
  if (std::ranges::any_of(stack, [](const Frame* frame) {
        return Has(*frame, "/tensorflow/python/framework/func_graph.py");
      })) {
    return kTracing;
  }
  for (const Part& part : kParts) {
    if (std::ranges::any_of(below, [&](const Frame* f) { return Has(*f, part.in_path); })) {
      return part.what;
    }
  }
  const auto library = std::ranges::find_if(below, [](const Frame* f) { return IsTensorFlow(*f); });
  if (library != below.end()) {
    return RunsOps(**library) ? kOps : "other Python of TensorFlow and Keras";
  }
  return program == stack.end() ? "other Python" : kProgram;
}

/// By call, the call of its thread.
std::vector<int> ThreadsOf(const StackProfile& profile) {
  std::vector<int> threads;
  for (const StackProfile::Call& call : profile.calls) {
    threads.push_back(call.parent < 0 ? static_cast<int>(threads.size())
                                      : threads[static_cast<std::size_t>(call.parent)]);
  }
  return threads;
}

const std::string& NameOf(const StackProfile& profile, int call) {
  const int frame = profile.calls[static_cast<std::size_t>(call)].frame;
  return profile.frames[static_cast<std::size_t>(frame)].name;
}

template <typename Key>
std::vector<std::pair<Key, double>> Largest(const std::map<Key, double>& all) {
  std::vector<std::pair<Key, double>> largest(all.begin(), all.end());
  std::ranges::stable_sort(largest, std::ranges::greater(), &std::pair<Key, double>::second);
  if (largest.size() > kMostRows) largest.resize(kMostRows);
  return largest;
}

/// Rows of shares of the time that the profile took. One thread can't have more than all of it:
/// what its last sample counts for may go a little beyond the end.
class Table {
 public:
  enum class Of { kOneThread, kAllThreads };
  Table(const StackProfile& profile, std::string_view title, Of of)
      : seconds_(static_cast<double>(profile.elapsed_us) / 1e6), title_(title), of_(of) {
    const auto steps = profile.counters.find("step");
    if (steps != profile.counters.end()) steps_ = steps->second;
  }

  void Add(double seconds, std::string_view what) {
    if (seconds_ <= 0 || seconds / seconds_ < kLeastShare) return;
    if (of_ == Of::kOneThread) seconds = std::min(seconds, seconds_);
    rows_ += fmt::format("  {:>6.1f} %", 100 * seconds / seconds_);
    if (steps_ > 0) rows_ += fmt::format("  {:>9.1f} ms a step", 1000 * seconds / steps_);
    rows_ += fmt::format("  {}\n", Printable(what));
  }
  /// Empty without rows.
  std::string Text() const { return rows_.empty() ? "" : fmt::format("\n{}:\n{}", title_, rows_); }

 private:
  double seconds_;
  double steps_ = 0;
  std::string title_;
  Of of_;
  std::string rows_;
};

std::string Head(const StackProfile& profile, std::string_view node) {
  std::string text = fmt::format("{}: {:.1f} s, {} samples of each thread", node,
                                 static_cast<double>(profile.elapsed_us) / 1e6, profile.samples);
  const auto steps = profile.counters.find("step");
  const double elapsed = static_cast<double>(profile.elapsed_us) / 1e6;
  if (steps == profile.counters.end() || steps->second <= 0) return text + '\n';
  const std::string counted =
      fmt::format("{:.0f} step{}", steps->second, steps->second < 1.5 ? "" : "s");
  text += fmt::format(", {} of {:.1f} ms\n", counted, 1e3 * elapsed / steps->second);
  if (steps->second >= kFewSteps) return text;
  return text + fmt::format(
                    "Only {} in {:.1f} s, so what a step takes is a rough guess. A longer "
                    "profile (--seconds) sees more.\n",
                    counted, elapsed);
}

double Counter(const StackProfile& profile, const std::string& name) {
  const auto counter = profile.counters.find(name);
  return counter == profile.counters.end() ? 0 : counter->second;
}

/// The share of the time in which the program waits for its dataset, and not for rows that the
/// dataset waits for. Nothing where it could not be seen: the node looks only for a part of the
/// time, at batches that it sees from their beginning to their end.
std::optional<double> DatasetShare(const StackProfile& profile) {
  const double watched = Counter(profile, "dataset_watched_seconds");
  if (watched < kLeastWatched || profile.elapsed_us <= 0) return std::nullopt;
  const double share = std::min(1.0, Counter(profile, "dataset_wait_seconds") / watched);
  const double for_rows =
      Counter(profile, "feed_node_wait_seconds") * 1e6 / static_cast<double>(profile.elapsed_us);
  return std::max(0.0, share - for_rows);
}

/// What graphs do, their Python can't show. `seconds_in_ops`: how long the main thread was in them.
std::string DatasetVerdict(const StackProfile& profile, double seconds_in_ops) {
  const std::optional<double> share = DatasetShare(profile);
  if (share) {
    if (*share < kMostly) return "";
    return fmt::format("It mostly waits for its own dataset (tf.data): {:.0f} % of the time.\n",
                       100 * *share);
  }
  if (seconds_in_ops * 1e6 < kMostly * static_cast<double>(profile.elapsed_us)) return "";
  return "Whether it waits for its own dataset (tf.data) can't be told: TensorFlow's profiler saw "
         "it take no batches.\n";
}

/// What the stacks can't show, as graphs do it: most of the time goes to waiting for others. Empty
/// where it does not.
std::string Verdict(const StackProfile& profile) {
  for (const auto& [name, what] : {std::pair("feed_node_wait_seconds", "rows"),
                                   std::pair("collective_wait_seconds", "other nodes")}) {
    const auto counter = profile.counters.find(name);
    if (counter == profile.counters.end() || profile.elapsed_us <= 0) continue;
    const double share = counter->second * 1e6 / static_cast<double>(profile.elapsed_us);
    if (share < kMostly) continue;
    // Threads may wait side by side.
    return fmt::format("It mostly waits for {}: {:.0f} % of the time.\n", what,
                       100 * std::min(share, 1.0));
  }
  return "";
}

/// What no counter has: Python that a graph calls, such as a dataset's map, runs on a thread of
/// TensorFlow, while the main thread is inside the graph. `called`: such functions with their
/// seconds. Empty where none is busy for most of the time.
std::string SlowFunction(const StackProfile& profile, double seconds_in_ops,
                         const std::map<std::string, double>& called) {
  const auto slowest =
      std::ranges::max_element(called, {}, [](const auto& function) { return function.second; });
  const double elapsed = static_cast<double>(profile.elapsed_us) / 1e6;
  if (slowest == called.end() || elapsed <= 0 || seconds_in_ops < kMostly * elapsed ||
      slowest->second < kMostly * elapsed) {
    return "";
  }
  return fmt::format(
      "A step may be waiting for {}, which was on another thread for {:.0f} % of the time.\n",
      Printable(slowest->first), 100 * std::min(slowest->second / elapsed, 1.0));
}

std::string Counted(const StackProfile& profile) {
  Table table(profile, "What the node has counted, on all its threads", Table::Of::kAllThreads);
  for (const auto& [name, what] :
       {std::pair("feed_node_wait_seconds", "waiting for rows"),
        std::pair("collective_seconds", "collective operations"),
        std::pair("collective_wait_seconds", "  of these, waiting for other nodes")}) {
    const auto counter = profile.counters.find(name);
    if (counter == profile.counters.end()) continue;
    double seconds = counter->second;
    // A part of an operation may be counted in the second before or after the operation itself.
    if (std::string_view(name) == "collective_wait_seconds") {
      seconds = std::min(seconds, Counter(profile, "collective_seconds"));
    }
    table.Add(seconds, what);
  }
  if (const std::optional<double> share = DatasetShare(profile)) {
    table.Add(*share * static_cast<double>(profile.elapsed_us) / 1e6,
              "waiting for its own dataset (tf.data)");
  }
  return table.Text();
}

std::string CpuTime(const StackProfile& profile) {
  Table table(profile, "CPU time of its threads (100 % is one core)", Table::Of::kAllThreads);
  for (const auto& [name, seconds] : Largest(profile.cpu_seconds)) table.Add(seconds, name);
  return table.Text();
}

/// "models/train.py".
std::string_view EndOfPath(std::string_view path) {
  std::size_t slash = path.rfind('/');
  if (slash != std::string_view::npos && slash > 0) slash = path.rfind('/', slash - 1);
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// Seconds by name and file of a function, and by line.
using Functions = std::map<std::pair<std::string, std::string>, std::map<int, double>>;

std::string WithFunctions(Table table, const Functions& functions) {
  std::map<std::string, double> named;
  for (const auto& [function, lines] : functions) {
    double sum = 0;
    for (const auto& [line, seconds] : lines) sum += seconds;
    const int hottest =
        std::ranges::max_element(lines, {}, [](const auto& line) { return line.second; })->first;
    named[fmt::format("{}  ({}, most of it at line {})", function.first, EndOfPath(function.second),
                      hottest)] += sum;
  }
  for (const auto& [function, seconds] : Largest(named)) table.Add(seconds, function);
  return table.Text();
}

}  // namespace

std::string ProfileTables(const StackProfile& profile, std::string_view node) {
  std::map<std::string_view, double> parts;
  Functions functions;
  Functions on_other_threads;
  std::map<std::string, double> called_by_graphs;
  const std::vector<int> threads = ThreadsOf(profile);
  for (std::size_t i = 0; i < profile.calls.size(); ++i) {
    const double seconds = static_cast<double>(profile.calls[i].own_us) / 1e6;
    if (seconds <= 0) continue;
    const bool on_main_thread = NameOf(profile, threads[i]) == kMainThread;
    const std::vector<const Frame*> stack = StackOf(profile, i);
    if (on_main_thread) parts[WhatIsDone(stack)] += seconds;
    const auto program = std::ranges::find_if(stack, [](const Frame* f) { return IsProgram(*f); });
    if (program == stack.end()) continue;
    Functions& those = on_main_thread ? functions : on_other_threads;
    those[{(*program)->name, (*program)->file}][(*program)->line] += seconds;
    if (!on_main_thread && IsCalledByGraph(stack)) called_by_graphs[(*program)->name] += seconds;
  }
  Table where(profile, "Where its main thread was", Table::Of::kOneThread);
  for (const auto& [what, seconds] : Largest(parts)) where.Add(seconds, what);
  std::string verdict = Verdict(profile);
  if (verdict.empty()) verdict = SlowFunction(profile, parts[kOps], called_by_graphs);
  if (verdict.empty()) verdict = DatasetVerdict(profile, parts[kOps]);
  const Table on_it(profile, "Functions of the program on its main thread, with what they call",
                    Table::Of::kOneThread);
  const Table on_others(
      profile, "Functions of the program on other threads, such as those of a dataset's map",
      Table::Of::kAllThreads);
  return Head(profile, node) + verdict + where.Text() + Counted(profile) + CpuTime(profile) +
         WithFunctions(on_it, functions) + WithFunctions(on_others, on_other_threads);
}

std::string SpeedscopeFile(const StackProfile& profile, std::string_view node) {
  Json frames = Json::array();
  for (const Frame& frame : profile.frames) {
    Json json = {{"name", frame.name}};
    if (!frame.file.empty()) json["file"] = frame.file;
    if (frame.line > 0) json["line"] = frame.line;
    frames.push_back(std::move(json));
  }
  const std::vector<int> threads = ThreadsOf(profile);
  // The frames of each call are those of its caller and one more.
  std::vector<std::vector<int>> stacks;
  std::map<std::pair<bool, std::string>, Json> by_thread;  // The main one first.
  for (std::size_t i = 0; i < profile.calls.size(); ++i) {
    const StackProfile::Call& call = profile.calls[i];
    std::vector<int> stack;
    if (call.parent >= 0) {
      stack = stacks[static_cast<std::size_t>(call.parent)];
      stack.push_back(call.frame);
    }
    const std::string& name = NameOf(profile, threads[i]);
    Json& thread = by_thread[{name != kMainThread, name}];
    if (thread.is_null()) {
      thread = {{"type", "sampled"},       {"name", name},  {"unit", "microseconds"},
                {"startValue", 0},         {"endValue", 0}, {"samples", Json::array()},
                {"weights", Json::array()}};
    }
    if (call.own_us > 0) {
      thread["samples"].push_back(stack);
      thread["weights"].push_back(call.own_us);
      thread["endValue"] = thread["endValue"].get<std::int64_t>() + call.own_us;
    }
    stacks.push_back(std::move(stack));
  }
  Json profiles = Json::array();
  for (auto& [name, thread] : by_thread) profiles.push_back(std::move(thread));
  return WriteJsonLine({{"$schema", "https://www.speedscope.app/file-format-schema.json"},
                        {"exporter", "tfos"},
                        {"name", node},
                        {"activeProfileIndex", 0},
                        {"shared", {{"frames", std::move(frames)}}},
                        {"profiles", std::move(profiles)}}) +
         '\n';
}

}  // namespace tfos::cli
