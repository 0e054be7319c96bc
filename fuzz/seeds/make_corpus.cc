// Writes the seeds of the fuzz targets: small real inputs, by the code that writes them in earnest.
//   make_corpus DIRECTORY
// DIRECTORY/TARGET/NAME is made anew for each; other files, which fuzzing found, are left alone.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "feed/read/test_chunks.h"
#include "feed/wire/frame.h"
#include "inference/test_saved_model.h"
#include "jvm/plan_json.h"
#include "records/example/test_examples.h"
#include "records/files/index_builder.h"
#include "records/framing/compression.h"
#include "seeds/base_corpus.h"
#include "seeds/control_corpus.h"
#include "seeds/hostile_corpus.h"
#include "seeds/seed.h"
#include "seeds/tensor_corpus.h"
#include "testing/pickler.h"

namespace {

using namespace tfos;  // NOLINT(google-build-using-namespace)

std::filesystem::path corpus;

void Write(const std::string& target, const std::string& name, std::string_view bytes) {
  const auto directory = corpus / (target + "_fuzz");
  std::filesystem::create_directories(directory);
  std::ofstream file(directory / name, std::ios::binary);
  file << bytes;
  if (!file.flush()) {
    std::fprintf(stderr, "%s can't be written\n", (directory / name).c_str());
    std::exit(1);
  }
}

void Chunks() {
  using chunk::DType;
  using chunk::RowNodeKind;
  const std::vector<feed::TestColumn> columns = {
      {.kind = RowNodeKind::kNumpyArray, .dtype = DType::kFloat32, .shape = {2, 3}, .name = "x"},
      {.kind = RowNodeKind::kInt, .dtype = DType::kInt64, .name = "y"},
      {.kind = RowNodeKind::kText, .name = "text"},
      {.kind = RowNodeKind::kNumberList, .dtype = DType::kFloat32, .ragged = true, .name = "r"}};
  Write("chunk", "tuple", TextOf(feed::MakeChunk(columns, 0, 5)));
  Write("chunk", "dict", TextOf(feed::MakeChunk(columns, 3, 2, RowNodeKind::kDict)));
  Write("chunk", "number", TextOf(feed::MakeChunk({columns[1]}, 0, 3, RowNodeKind::kNone)));
  Write("chunk", "empty", TextOf(feed::MakeChunk(columns, 0, 0)));

  std::string structure;
  chunk::AppendRowStructure(feed::Node(RowNodeKind::kInt), structure);
  Write("row_structure", "number", Byte(1) + structure);
  structure.clear();
  chunk::AppendRowStructure(
      feed::Node(RowNodeKind::kDict,
                 {feed::Node(RowNodeKind::kInt),
                  feed::Node(RowNodeKind::kTuple, {feed::Node(RowNodeKind::kInt)})},
                 {"a", "b"}),
      structure);
  Write("row_structure", "dict", Byte(2) + structure);
  structure.clear();
  chunk::AppendRowStructure(
      feed::Node(RowNodeKind::kSparkRow,
                 {feed::Node(RowNodeKind::kNumpyArray), feed::Node(RowNodeKind::kNone)},
                 {"x", "nothing"}),
      structure);
  Write("row_structure", "spark_row", Byte(8 + 1) + structure);
}

void Examples() {
  Write("example", "example", records::GoldenExample());
  Write("example", "sequence_example", records::GoldenSequenceExample());
  // Names that the target has columns of.
  Write("example", "letters",
        records::ExampleOf({{"a", records::Int64Feature({1})},
                            {"q", records::FloatFeature({1.5F, -2})},
                            {"z", records::BytesFeature({"ab", "", "\xff"})}}));

  const std::vector<std::string> some = {"one", "", std::string(300, 'x'),
                                         records::GoldenExample()};
  const std::pair<const char*, records::Compression> compressions[] = {
      {"plain", records::Compression::kNone},
      {"gzip", records::Compression::kGzip},
      {"zlib", records::Compression::kZlib}};
  for (const auto& [name, compression] : compressions) {
    std::string file;
    records::RecordWriter writer(
        Must(records::Compress(std::make_unique<records::MemorySink>("seed", file), compression)));
    for (const std::string& record : some) (void)writer.Write(records::Bytes(record)).ok();
    (void)writer.Close().ok();
    for (const int validation : {0, 1, 2}) {
      Write("record", std::string(name) + std::to_string(validation),
            Byte(static_cast<int>(compression) + 3 * validation) + file);
    }
  }

  std::string file;
  records::IndexBuilder index(std::make_unique<records::MemorySink>("seed", file), 1000);
  const std::string records = records::FileOf(std::vector<std::string>(10, some[2]));
  for (std::uint64_t i = 0; i < 10; ++i) index.AddRecord(records.size() / 10 * i, i);
  (void)index.Write(records::Bytes(records)).ok();
  const std::string whole = index.Finish(10).Serialize();
  Write("record_index", "whole", whole);
  // The target adds the CRC.
  Write("record_index", "without_crc", whole.substr(0, whole.size() - sizeof(std::uint32_t)));
}

void FeedFrames() {
  using namespace feed;  // NOLINT(google-build-using-namespace)
  SessionOptions open;
  open.queue = "rows";
  open.key = {.epoch = 3, .partition = 7};
  open.region_bytes = 1 << 20;
  open.replay = {.place = CachePlace::kMemory, .epochs = 4, .shuffle_seed = 9};
  const std::string taken = Encode(OpenedMessage{.region_bytes = 4096}) +
                            Encode(CreditMessage{.chunks = 2, .accepted = {300, 700}}) +
                            EncodeProgress() + Encode(EndedMessage{.items = 5, .rows = 5});
  const std::string data = EncodeDataHead({.items = 3}, 10) + std::string(10, 'd') +
                           EncodeResultHead(2, 4) + "abcd" + EncodeEnd(5) + EncodeStop();
  const std::string counts =
      Encode(CountMessage{.key = open.key}) +
      Encode(
          CountedMessage{.more = true, .accepted = {4, 9}, .chunks = {{{1, 4}, 5}, {{7, 9}, 6}}});
  const std::string rest = Encode(ChunkMessage{.bytes = 64, .items = 2}) + EncodeGrow(8192) +
                           EncodeRegion(8192) + EncodeSuperseded(2) + EncodeError("a node failed");
  const std::pair<const char*, std::string> all[] = {
      {"open", Encode(open)}, {"taken", taken}, {"data", data}, {"counts", counts}, {"rest", rest}};
  for (const auto& [name, frames] : all) Write("feed_frame", name, Byte(6) + frames);

  const nlohmann::json plan = {{"feed_key", std::string(64, 'f')},
                               {"encrypt", "auto"},
                               {"pickle", true},
                               {"job_id", "000102030405060708090a0b0c0d0eff"},
                               {"queue", "input"},
                               {"epoch", 7},
                               {"timeout", 1.5},
                               {"answer_timeout", 30.0},
                               {"region_bytes", 1 << 20},
                               {"cache", "disk"},
                               {"replays", 3},
                               {"shuffle_seed", 11},
                               {"until_read", true},
                               {"check_retries", true},
                               {"bears_losses", false},
                               {"repeats", false},
                               {"trained", {{"0", nlohmann::json::array({{0, 16, 7, true}})}}},
                               {"coordinator", {"host", 1}},
                               {"endpoints",
                                {{{"node_id", 0},
                                  {"socket", "tfos-x"},
                                  {"address", "10.0.0.1"},
                                  {"port", 4000},
                                  {"executor_id", "0"}}}}};
  Write("feed_plan", "one_node", plan.dump());
}

/// A step of a script for the sessions of a node.
std::string Step(int what, std::string_view said = {}) {
  return Byte(what) + Byte(static_cast<int>(said.size())) + std::string(said);
}

void FeedSessions() {
  using namespace feed;  // NOLINT(google-build-using-namespace)
  // Feeder 0 comes over TCP, and 1 and 2 share memory. See the target for what the steps are.
  const auto train = [](std::uint32_t partition, bool until_read = false) {
    return Encode(SessionOptions{
        .key = {.partition = partition}, .attempt = partition + 1, .until_read = until_read});
  };
  const std::string count = Encode(CountMessage{.attempt = 1});
  const std::string data = EncodeDataHead({.items = 2}, 10) + std::string(10, 'd');
  const std::string chunk = Encode(ChunkMessage{.bytes = 64, .items = 3});
  Write("feed_sessions", "tcp",
        Step(0, count) + Step(0, train(0)) + Step(0, data) + Byte(3) + Byte(0) + Step(4) +
            Step(0, EncodeEnd(2)) + Step(7));
  Write("feed_sessions", "memory",
        Step(1, train(1)) + Step(2, train(2, true)) + Step(1, chunk) + Step(2, chunk) + Step(3) +
            Step(3) + Step(4) + Step(1, EncodeEnd(3)) + Step(2, EncodeEnd(3)) + Step(7));
  Write("feed_sessions", "inference",
        Step(1, Encode(SessionOptions{.mode = Mode::kInference})) + Step(1, chunk) + Step(3) +
            Byte(5) + Byte(3) + Step(1, EncodeEnd(3)) + Step(3) + Byte(5) + Byte(4) + Byte(7) +
            Byte(1));
  Write("feed_sessions", "grow",
        Step(1, train(1)) + Step(1, EncodeGrow(16'384)) +
            Step(1, Encode(ChunkMessage{.bytes = 16'000, .items = 1})) + Step(3) + Step(6));
  const std::string pass = Encode(SessionOptions{.mode = Mode::kPass, .attempt = 7});
  Write("feed_sessions", "passed",
        Step(2, pass) + Step(2, chunk) + Byte(3) + Byte(1) + Step(2, EncodeEnd(3)) + Byte(8) +
            Byte(1));
  // Its giver did not hear that the rows were taken, and brings them again.
  Write("feed_sessions", "passed_twice",
        Step(2, pass) + Step(2, chunk) + Step(2, EncodeEnd(3)) + Byte(3) + Byte(1) + Byte(6) +
            Byte(2) + Byte(9) + Byte(2) + Step(2, pass) + Step(2, chunk) + Step(2, EncodeEnd(3)));
  Write("feed_sessions", "replayed",
        Step(1, Encode(SessionOptions{.attempt = 3,
                                      .replay = {.place = CachePlace::kMemory, .epochs = 2}})) +
            Step(1, chunk) + Step(1, EncodeEnd(3)) + Step(3) + Byte(8) + Byte(2) + Step(3) +
            Step(3) + Step(9));
  Write("feed_sessions", "superseded",
        Step(1, train(1)) + Step(1, chunk) +
            Step(2, Encode(CountMessage{.key = {.partition = 1}, .attempt = 9})) + Byte(9) +
            Byte(2));
}

void FeedClients() {
  using namespace feed;  // NOLINT(google-build-using-namespace)
  // The first byte: shared memory, with a descriptor, inference, and a COUNT before.
  const std::string opened = Encode(OpenedMessage{.result_limit = 1 << 20, .region_bytes = 8192});
  const std::string credits = Encode(CreditMessage{.chunks = 2, .accepted = {5100, 5100}});
  const std::string ended = Encode(EndedMessage{.items = 3, .rows = 0});
  Write("feed_client", "tcp", Byte(0) + opened + credits + EncodeRegion(20'480) + ended);
  Write("feed_client", "memory", Byte(3) + opened + EncodeProgress() + credits + EncodeStop());
  Write("feed_client", "counted",
        Byte(8) +
            Encode(CountedMessage{.more = true, .accepted = {4, 9}, .chunks = {{{1, 4}, 5}}}) +
            Encode(CountedMessage{.accepted = {4, 9}, .chunks = {{{7, 9}, 6}}}) + opened);
  Write("feed_client", "results",
        Byte(4) + opened + EncodeResultHead(1, 4) + "rows" + credits + EncodeRegion(20'480) +
            EncodeResultHead(2, 0) + ended);
  Write("feed_client", "superseded", Byte(1) + EncodeSuperseded(2));
  Write("feed_client", "failed", Byte(0) + opened + EncodeError("a traceback"));
}

void ChangingChunks() {
  using chunk::DType;
  using chunk::RowNodeKind;
  const std::vector<feed::TestColumn> columns = {
      {.kind = RowNodeKind::kNumpyArray, .dtype = DType::kFloat32, .shape = {2, 3}, .name = "x"},
      {.kind = RowNodeKind::kNumpyRagged, .dtype = DType::kInt64, .ragged = true, .name = "y"},
      {.kind = RowNodeKind::kText, .name = "text"},
      {.kind = RowNodeKind::kStringList, .ragged = true, .name = "texts"}};
  Write("changing_chunk", "columns", Byte(0) + std::string(TextOf(feed::MakeChunk(columns, 0, 9))));
  Pickler rows;
  rows.Op("](").Int(1).Text("a").Op("\x86").Int(2).Text("b").Op("\x86").Op("e");
  const std::string pickle = rows.Stop();
  chunk::ChunkBuilder builder(chunk::ChunkKind::kPickledBatches, chunk::kUnknownRows);
  builder.AddColumn({.encoding = chunk::ColumnEncoding::kOpaque,
                     .shape = {},
                     .values = 1,
                     .data_bytes = pickle.size(),
                     .name = {}});
  std::vector<std::byte> bytes(Must(builder.Plan()));
  if (!builder.Begin(bytes).ok()) std::exit(1);
  std::memcpy(builder.data(0).data(), pickle.data(), pickle.size());
  builder.SetStringBoundary(0, 1, pickle.size());
  Write("changing_chunk", "pickle", Byte(90) + std::string(TextOf(bytes)));
}

void Pickles() {
  // Batches as Spark has them: lists of rows.
  Pickler numbers;
  numbers.Op("](").Floats({1, 2}).Floats({3, 4}).Op("e");
  Write("pickle", "lists", Byte(0) + numbers.Stop());
  Pickler rows;
  rows.Op("](").Int(1).Text("a").Op("\x86").Int(2).Text("b").Op("\x86").Op("e");
  Write("pickle", "tuples", Byte(0) + rows.Stop());
  Pickler arrays;
  arrays.Op("](")
      .Array("f4", {2}, std::string(8, '\1'))
      .Array("f4", {2}, std::string(8, '\2'))
      .Op("e");
  Write("pickle", "arrays", Byte(0) + arrays.Stop());
  const std::string first = rows.Stop();
  Write("pickle", "two", Byte(static_cast<int>(first.size())) + first + rows.Stop());
}

void Models() {
  const std::string model = inference::TestSavedModel();
  Write("saved_model", "model", model);
  Write("saved_model", "empty", inference::GraphMessage({}));
  const auto graphs = Must(inference::ReadSavedModel(records::Bytes(model)));
  const auto& signature = graphs.at(0).signatures.at(0);
  const nlohmann::json text = jvm::SignatureToJson(signature);
  Write("java_json", "signature", text.dump());
  const auto column = [](const char* name, const char* format, nlohmann::json children) {
    return nlohmann::json{
        {"name", name}, {"format", format}, {"nullable", true}, {"children", children}};
  };
  const auto none = nlohmann::json::array();
  const nlohmann::json numbers =
      column("numbers", "+l", nlohmann::json::array({column("item", "f", none)}));
  const nlohmann::json table =
      column("", "+s", nlohmann::json::array({column("word", "u", none), numbers}));
  Write("java_json", "type", table.dump());
  const auto list = [](nlohmann::json::initializer_list_t items) {
    return nlohmann::json::array(items);
  };
  const nlohmann::json request = {
      {"signature", text},
      {"inputs", list({list({"numbers", "pixels", ""}), list({"word", "text", ""})})},
      {"outputs", list({list({"digit", "digit"})})},
      {"binary", none},
      {"table", table}};
  Write("java_json", "request", request.dump());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: make_corpus DIRECTORY\n");
    return 2;
  }
  corpus = argv[1];
  Chunks();
  for (const Seed& seed : BaseSeeds()) Write(seed.target, seed.name, seed.bytes);
  for (const Seed& seed : ControlSeeds()) Write(seed.target, seed.name, seed.bytes);
  for (const Seed& seed : HostileSeeds()) Write(seed.target, seed.name, seed.bytes);
  Examples();
  FeedFrames();
  FeedSessions();
  FeedClients();
  ChangingChunks();
  for (const Seed& seed : TensorSeeds()) Write(seed.target, seed.name, seed.bytes);
  Pickles();
  Models();
  return 0;
}
