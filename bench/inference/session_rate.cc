#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "arrow/export.h"
#include "base/format.h"
#include "inference/engine.h"
#include "inference/saved_model_signature.h"
#include "records/example/value_buffer.h"
#include "tensorflow/saved_model.h"
#include "tensorflow/session_api.h"
#include "tensorflow/tf_codes.h"

// What TensorFlow's session does by itself with batches that are ready, and what the engine adds:
//
//   session_rate TENSORFLOW_DIRECTORY MODEL BATCH_ROWS SESSIONS THREADS
//
// Prints {"rows_per_s": ..., "session_us": ..., "engine_us": ...} as JSON: rows a second of
// SESSIONS sessions of THREADS threads each, all at once; then the median microseconds of a call
// with one row.

namespace tfos {
namespace {

using Clock = std::chrono::steady_clock;
using inference::Engine;
using tensorflow::SavedModel;
using tensorflow::SessionTensor;

constexpr std::int64_t kFeatures = 784;
constexpr double kSeconds = 3;
constexpr int kCalls = 20'000;

template <typename T>
T ValueOrExit(Result<T> result) {
  if (!result.ok()) {
    std::cerr << result.status().ToString() << '\n';
    std::exit(1);
  }
  return std::move(result).value();
}

void OrExit(const Status& status) {
  if (status.ok()) return;
  std::cerr << status.ToString() << '\n';
  std::exit(1);
}

std::shared_ptr<const float> MakeRows(std::int64_t rows) {
  records::ValueBuffer<float> values;
  float* const to = values.Extend(static_cast<std::size_t>(rows * kFeatures));
  for (std::int64_t i = 0; i < rows * kFeatures; ++i) to[i] = static_cast<float>(i % 251) / 251;
  return values.Take();
}

SessionTensor Wrap(const tensorflow::SessionApi& api, const std::shared_ptr<const float>& rows,
                   std::int64_t count) {
  const std::int64_t shape[] = {count, kFeatures};
  return {api.NewTensor(
              tensorflow::kTfFloat, shape, 2, const_cast<float*>(rows.get()),
              static_cast<std::size_t>(count * kFeatures) * sizeof(float),
              [](void*, std::size_t, void*) {}, nullptr),
          tensorflow::DeleteSessionTensor{&api}};
}

struct Runner {
  std::unique_ptr<SavedModel> model;
  std::vector<TF_Output> places;
  std::vector<TF_Output> wanted;

  void Run(const std::vector<SessionTensor>& inputs) const {
    if (ValueOrExit(model->Run(places, inputs, wanted)).size() != 1) std::abort();
  }
};

double MedianMicroseconds(std::vector<double> seconds) {
  std::ranges::nth_element(seconds, seconds.begin() + std::ssize(seconds) / 2);
  return seconds[seconds.size() / 2] * 1e6;
}

template <typename Call>
double Timed(const Call& call) {
  std::vector<double> seconds;
  for (int i = 0; i < kCalls; ++i) {
    const auto begin = Clock::now();
    call();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return MedianMicroseconds(std::move(seconds));
}

int Main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: session_rate TENSORFLOW_DIRECTORY MODEL BATCH_ROWS SESSIONS THREADS\n";
    return 2;
  }
  const std::string directory = argv[2];
  const std::int64_t batch_rows = std::atoll(argv[3]);
  const auto api = ValueOrExit(tensorflow::SessionApi::Load(argv[1]));
  std::ifstream file(directory + "/saved_model.pb", std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  const auto graphs = ValueOrExit(inference::ReadSavedModel(std::as_bytes(std::span(content))));
  const std::vector<std::string> tags{"serve"};
  const auto signature = ValueOrExit(inference::FindSignature(graphs, tags, "serving_default"));
  std::vector<Runner> runners(static_cast<std::size_t>(std::atoi(argv[4])));
  for (Runner& runner : runners) {
    runner.model = ValueOrExit(SavedModel::Load(
        api, {.directory = directory, .tags = tags, .threads = std::atoi(argv[5])}));
    runner.places = {ValueOrExit(runner.model->Find(signature.inputs.at(0).edge))};
    runner.wanted = {ValueOrExit(runner.model->Find(signature.outputs.at(0).edge))};
  }

  const auto rows = MakeRows(batch_rows);
  std::vector<std::int64_t> done(runners.size());
  std::vector<std::jthread> threads;
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < runners.size(); ++i) {
    threads.emplace_back([&, i] {
      while (std::chrono::duration<double>(Clock::now() - begin).count() < kSeconds) {
        std::vector<SessionTensor> inputs;
        inputs.push_back(Wrap(api, rows, batch_rows));
        runners[i].Run(inputs);
        done[i] += batch_rows;
      }
    });
  }
  threads.clear();
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  std::int64_t all = 0;
  for (const std::int64_t one : done) all += one;

  // The same row through the session alone and through the engine.
  const auto one_row = MakeRows(1);
  const double session_us = Timed([&] {
    std::vector<SessionTensor> inputs;
    inputs.push_back(Wrap(api, one_row, 1));
    runners[0].Run(inputs);
  });
  arrow::Field values{.name = "item",
                      .format = "f",
                      .length = kFeatures,
                      .buffers = {nullptr, one_row.get()},
                      .memory = {one_row},
                      .children = {}};
  arrow::Field list{.name = signature.inputs[0].name,
                    .format = fmt::format("+w:{}", kFeatures),
                    .length = 1,
                    .buffers = {nullptr},
                    .memory = {},
                    .children = {}};
  list.children.push_back(std::move(values));
  arrow::Field table{
      .name = {}, .format = "+s", .length = 1, .buffers = {nullptr}, .memory = {}, .children = {}};
  table.children.push_back(std::move(list));
  ArrowSchema schema = arrow::ExportSchema(table);
  ArrowArray array = arrow::ExportArray(std::move(table));
  const auto engine = ValueOrExit(Engine::Create(
      *runners[0].model, ValueOrExit(inference::InferencePlan::Make(signature, {}, schema))));
  const Engine::RecordBatch batch{schema, array};
  const double engine_us = Timed([&] { OrExit(engine->Run({&batch, 1}, 1, 0).status()); });
  array.release(&array);
  schema.release(&schema);
  std::cout << fmt::format(R"({{"rows_per_s": {:.0f}, "session_us": {:.1f}, "engine_us": {:.1f}}})",
                           all / seconds, session_us, engine_us)
            << '\n';
  return 0;
}

}  // namespace
}  // namespace tfos

int main(int argc, char** argv) { return tfos::Main(argc, argv); }
