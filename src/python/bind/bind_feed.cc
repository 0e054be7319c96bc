#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/crypto/secret.h"
#include "base/text/choice.h"
#include "chunk/chunk_rows.h"
#include "control/ask/failure_text.h"
#include "control/ask/node_loss.h"
#include "control/host/held_port.h"
#include "datasets/batch_source.h"
#include "feed/feeder/feed_plan.h"
#include "feed/node/feed_server.h"
#include "node/node_feed.h"
#include "python/bind/bindings.h"
#include "python/feed/feed_reader.h"
#include "python/feed/feed_writer.h"
#include "python/objects/errors.h"
#include "python/objects/gil.h"

namespace tfos::python {
namespace {

using feed::FeedServer;

std::pair<bool, std::string> WhyNodeWasLost(const std::string& plan) {
  control::NodeLoss loss =
      ValueOrThrow(WithoutGil([&] { return control::WhyNodeWasLost(plan, &CheckSignals); }));
  return {loss.reason == control::LossReason::kProgramsReturned, std::move(loss.failure)};
}

/// Partition, first item, item after the last, checksum, first row, row after the last: rows of the
/// same chunk follow each other.
using TrainedTuple = std::tuple<std::uint32_t, std::uint64_t, std::uint64_t, std::uint32_t,
                                std::uint64_t, std::uint64_t>;

std::vector<feed::PartlyTrained> TrainedFrom(const std::vector<TrainedTuple>& lines) {
  std::vector<feed::PartlyTrained> trained;
  for (const auto& [partition, begin, end, checksum, first, last] : lines) {
    const feed::AcceptedChunk chunk{.items = {begin, end}, .checksum = checksum};
    if (trained.empty() || trained.back().partition != partition || trained.back().chunk != chunk) {
      trained.push_back({.partition = partition, .chunk = chunk, .rows = {}});
    }
    trained.back().rows.Add({first, last});
  }
  return trained;
}

std::shared_ptr<node::NodeFeed> StartServer(
    std::uint32_t node_id, const std::string& cluster_id, const std::string& key_hex,
    const std::vector<std::string>& queues, std::uint64_t memory_bytes,
    std::uint64_t cache_memory_bytes, const std::string& cache_directory,
    const std::string& bind_address, const std::string& ports, const std::string& encrypt,
    bool pickle, const std::string& trained_queue,
    const std::vector<TrainedTuple>& trained_before) {
  const auto range = ValueOrThrow(control::PortRange::Parse(ports));
  feed::FeedServerOptions options;
  options.node_id = node_id;
  options.key = ValueOrThrow(Secret::FromHex(key_hex));
  options.encryption = ValueOrThrow(net::EncryptionFromWord(encrypt));
  options.pickles = pickle;
  options.cluster_id = cluster_id;
  options.queues = queues;
  options.trained_queue = trained_queue;
  options.trained_before = TrainedFrom(trained_before);
  options.bind_address = bind_address;
  options.first_port = range.first;
  options.last_port = range.last;
  options.memory_budget_bytes = memory_bytes;
  options.cache_memory_bytes = cache_memory_bytes;
  options.cache_directory = cache_directory;
  return std::make_shared<node::NodeFeed>(
      ValueOrThrow(WithoutGil([&] { return FeedServer::Start(std::move(options)); })));
}

nb::dict EndpointOf(const node::NodeFeed& feed) {
  const feed::Endpoint endpoint = feed.server().endpoint();
  nb::dict result;
  result["socket"] = endpoint.unix_name;
  result["port"] = endpoint.port;
  return result;
}

nb::dict CountersOf(const node::NodeFeed& feed) {
  const feed::FeedCounters counters = feed.server().counters();
  const auto seconds = [](std::chrono::nanoseconds duration) {
    return std::chrono::duration<double>(duration).count();
  };
  nb::dict result;
  result["rows"] = feed.rows();
  result["batches"] = feed.batches();
  result["items"] = counters.items;
  result["chunks"] = counters.chunks;
  result["bytes"] = counters.bytes;
  result["result_rows"] = counters.result_rows;
  result["result_bytes"] = counters.result_bytes;
  result["queued_chunks"] = counters.queued_chunks;
  result["queued_bytes"] = counters.queued_bytes;
  result["open_sessions"] = counters.open_sessions;
  result["region_bytes_in_use"] = counters.region_bytes_in_use;
  result["taken_items"] = counters.taken_items;
  result["cache_memory_bytes"] = counters.cache_memory_bytes;
  result["cache_file_bytes"] = counters.cache_file_bytes;
  result["known_partitions"] = counters.known_partitions;
  result["broken_sessions"] = counters.broken_sessions;
  result["refused_connections"] = counters.refused_connections;
  result["consumer_wait_s"] = seconds(counters.consumer_wait);
  result["feeder_wait_s"] = seconds(counters.feeder_wait);
  return result;
}

// A partition of Spark's is never passed on.
constexpr Choice<feed::Mode> kModes[] = {{"train", feed::Mode::kTrain},
                                         {"inference", feed::Mode::kInference}};

void InitWriter(FeedWriter* self, const std::string& plan, const std::string& executor_id,
                std::uint32_t partition, feed::AttemptId attempt, const std::string& mode) {
  const feed::FeedTask task{.executor_id = executor_id,
                            .partition = partition,
                            .attempt = attempt,
                            .mode = ValueOrThrow(ChoiceNamed("mode", kModes, mode))};
  feed::PartitionWriterOptions options = ValueOrThrow(feed::ReadFeedPlan(plan, task));
  options.ask_ended = [plan](const InterruptCheck& check) {
    return control::EndedNodes(plan, check);
  };
  new (self) FeedWriter(std::move(options));
}

nb::dict FinishWriter(FeedWriter& writer) {
  const feed::Ended ended = writer.Finish();
  nb::dict result;
  result["items"] = writer.delivered_items();
  result["rows"] = ended.result_rows;
  result["moved"] = writer.moved_items();
  return result;
}

std::pair<bool, std::uint64_t> PairOf(const feed::PartitionFeeder::Stretch& ahead) {
  return {ahead.delivered, ahead.items};
}

}  // namespace

void BindFeed(nb::module_& module) {
  nb::class_<node::NodeFeed>(module, "FeedServer",
                             "Takes rows from Spark tasks into this node and gives results back.")
      .def(nb::new_(&StartServer), nb::arg("node_id"), nb::arg("cluster_id"), nb::arg("key_hex"),
           nb::arg("queues"), nb::arg("memory_bytes"), nb::arg("cache_memory_bytes"),
           nb::arg("cache_directory"), nb::arg("bind_address"), nb::arg("ports"),
           nb::arg("encrypt"), nb::arg("pickle"), nb::arg("trained_queue") = "",
           nb::arg("trained_before") = std::vector<TrainedTuple>())
      .def("endpoint", &EndpointOf, "Where feeders connect to: a dict of socket and port.")
      .def(
          "reader",
          [](std::shared_ptr<node::NodeFeed> feed, std::string queue) {
            return std::make_shared<FeedReader>(std::move(feed), std::move(queue));
          },
          nb::arg("queue"), "A reader of one queue.")
      .def(
          "batch_source",
          [](std::shared_ptr<node::NodeFeed> feed, const std::string& queue) {
            // Its end gives chunks back, and may wait for the feed to take them.
            return std::shared_ptr<datasets::BatchSource>(
                new datasets::BatchSource(std::move(feed), queue),
                [](datasets::BatchSource* source) { WithoutGil([source] { delete source; }); });
          },
          nb::arg("queue"), "The batches of one queue, for tf.data and NumPy.")
      .def(
          "end_epoch",
          [](node::NodeFeed& feed, const std::string& queue, std::uint32_t epoch) {
            feed.server().EndEpoch(queue, epoch);
          },
          nb::arg("queue"), nb::arg("epoch"), nb::call_guard<nb::gil_scoped_release>(),
          "All rows of this epoch have been fed: puts its end behind what is queued.")
      .def(
          "abandon_epoch",
          [](node::NodeFeed& feed, const std::string& queue, std::uint32_t epoch,
             const std::string& job_id) {
            feed.server().AbandonEpoch(queue, epoch, ValueOrThrow(feed::ReadJobId(job_id)));
          },
          nb::arg("queue"), nb::arg("epoch"), nb::arg("job_id"),
          "The job that fed this epoch was interrupted: nothing of it is replayed.")
      .def(
          "tell_waits", [](node::NodeFeed& feed) { feed.steps().TellWaits(); },
          "From now on the coordinator hears when a reader that goes in step waits for rows.")
      .def("asked_for_more", &node::NodeFeed::asked_for_more,
           "Whether the program has asked for an epoch that was not fed.")
      .def(
          "end_feed", [](node::NodeFeed& feed) { feed.server().EndFeed(); },
          nb::call_guard<nb::gil_scoped_release>(),
          "No partition will come any more: readers get what is there, then the end.")
      .def(
          "terminate", [](node::NodeFeed& feed) { feed.server().Terminate(); },
          nb::call_guard<nb::gil_scoped_release>(),
          "Drops what is queued and lets feeders discard the rest.")
      .def(
          "fail", [](node::NodeFeed& feed, const std::string& text) { feed.server().Fail(text); },
          nb::arg("text"), nb::call_guard<nb::gil_scoped_release>(),
          "Every feeder gets `text` as its error from now on.")
      .def(
          "close", [](node::NodeFeed& feed) { feed.server().Close(); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("counters", &CountersOf, "A snapshot of what went through, by name.");

  nb::class_<FeedReader>(module, "FeedReader", "The program's end of one queue.")
      .def("next_rows", &FeedReader::NextRows, nb::arg("count"), nb::arg("cross_partition"),
           nb::arg("timeout_s") = nb::none(),
           "Up to `count` rows: fewer only at the end of the feed or, unless `cross_partition`, "
           "of an inference partition.")
      .def("next_columns", &FeedReader::NextColumns, nb::arg("names"), nb::arg("count"),
           nb::arg("cross_partition"), nb::arg("timeout_s") = nb::none(),
           "The same rows as a list of NumPy arrays, one for each name of a field; names are "
           "positions where rows have no names.")
      .def_prop_ro("ended", &FeedReader::ended, "Whether the end of the feed was reached.")
      .def("send_results", &FeedReader::SendResults, nb::arg("results"),
           "Answers the oldest unanswered rows, one result for each.")
      .def(
          "send_columns", &FeedReader::SendColumns, nb::arg("names").none(), nb::arg("columns"),
          "The same with NumPy arrays and lists, one for each name, or the only one without names. "
          "False when they can only be sent as rows.")
      .def("finish", &FeedReader::Finish,
           "The program has ended: partitions that lack results fail.");

  nb::class_<ResultBatch>(module, "ResultBatch", "Results of an inference partition as they came.")
      .def_prop_ro("rows", &ResultBatch::rows)
      .def_prop_ro("form", &ResultBatch::form,
                   "'value', 'list', 'tuple' or 'mapping': what a result is; 'object': they are "
                   "pickled.")
      .def("objects", &ResultBatch::Objects, "Every result as the object that it was.")
      .def(
          "__arrow_c_array__",
          [](const ResultBatch& batch, nb::handle) { return batch.ArrowCapsules(); },
          nb::arg("requested_schema") = nb::none(), "The results as an Arrow struct array.");

  module.attr("FIRST_CHUNK_ROWS") = chunk::kFirstChunkRows;
  module.def("next_chunk_rows", &chunk::NextChunkRows, nb::arg("wanted"), nb::arg("rows"),
             nb::arg("written"), nb::arg("chunk_bytes"),
             "How many rows the chunk gets after one of `rows` rows that took `written` bytes.");
  module.def(
      "failure_text",
      [](const std::string& failure) { return ValueOrThrow(control::FailureText(failure)); },
      nb::arg("failure"), "What a person reads of a FAILURE, given as JSON.");
  module.def(
      "why_node_was_lost", &WhyNodeWasLost, nb::arg("plan"),
      "(whether the programs of all nodes that were fed have returned, the cluster's failure "
      "as JSON or \"\"), as the coordinator says.");
  nb::class_<FeedWriter>(module, "FeedWriter", "Feeds one partition into the nodes.")
      .def("__init__", &InitWriter, nb::arg("plan"), nb::arg("executor_id"), nb::arg("partition"),
           nb::arg("attempt"), nb::arg("mode"))
      .def("write_rows", &FeedWriter::WriteRows, nb::arg("rows"),
           "Sends a list of rows; returns the bytes that they took.")
      .def("write_pickled", &FeedWriter::WritePickled, nb::arg("batches"),
           "Sends batches as Spark pickled them; returns the bytes that they took.")
      .def(
          "write_arrow",
          [](FeedWriter& writer, nb::handle batch, std::size_t begin, std::size_t end,
             bool decimals_as_float64) {
            return writer.WriteArrow(
                batch, begin, end,
                decimals_as_float64 ? columns::Decimals::kFloat64 : columns::Decimals::kRefuse);
          },
          nb::arg("batch"), nb::arg("begin"), nb::arg("end"), nb::arg("decimals_as_float64"),
          "Sends the rows [begin, end) of a pyarrow record batch; returns the bytes that they "
          "took.")
      .def("results", &FeedWriter::Results, nb::arg("block"),
           "The next results, in order; None when there are none yet (not `block`) or none will "
           "come (`block`).")
      .def("result_batch", &FeedWriter::TakeResultBatch, nb::arg("block"),
           "The same as a ResultBatch.")
      .def(
          "ahead", [](FeedWriter& writer) { return PairOf(writer.Ahead()); },
          "(whether the next items are a chunk that an earlier attempt delivered, how many): of "
          "such a chunk the next call brings exactly as many, to be compared; else at most.")
      .def(
          "batches_ahead", [](FeedWriter& writer) { return PairOf(writer.BatchesAhead()); },
          "The same for write_pickled.")
      .def("end", &FeedWriter::End, "Says that the partition is complete.")
      .def("finish", &FinishWriter,
           "Waits until the nodes have everything; a dict of items delivered and result rows.")
      .def_prop_ro("stopped", &FeedWriter::stopped, "Whether no node wants more rows.")
      .def("close", &FeedWriter::Close);
}

}  // namespace tfos::python
