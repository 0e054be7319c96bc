#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "arrow/export.h"
#include "inference/engine.h"
#include "inference/inference_plan.h"
#include "inference/saved_model_signature.h"
#include "python/bind/bindings.h"
#include "python/objects/arrow_capsules.h"
#include "python/objects/errors.h"
#include "python/objects/gil.h"
#include "tensorflow/saved_model.h"
#include "tensorflow/session_api.h"

namespace tfos::python {
namespace {

using inference::Engine;
using inference::InferencePlan;
using inference::MetaGraph;
using inference::Signature;
using inference::TensorSpec;

/// A tensor of a signature as Python holds and pickles it: name, edge, dtype, shape.
using TensorTuple =
    std::tuple<std::string, std::string, int, std::optional<std::vector<std::int64_t>>>;

std::vector<TensorSpec> SpecsFrom(const std::vector<TensorTuple>& tuples) {
  std::vector<TensorSpec> specs;
  for (const auto& [name, edge, dtype, shape] : tuples) specs.push_back({name, edge, dtype, shape});
  return specs;
}

std::vector<TensorTuple> TuplesFrom(const std::vector<TensorSpec>& specs) {
  std::vector<TensorTuple> tuples;
  for (const TensorSpec& spec : specs) {
    tuples.emplace_back(spec.name, spec.edge, spec.dtype, spec.shape);
  }
  return tuples;
}

/// (name, type) of each, for people.
std::vector<std::tuple<std::string, std::string>> TextsOf(const std::vector<TensorSpec>& specs) {
  std::vector<std::tuple<std::string, std::string>> texts;
  for (const TensorSpec& spec : specs) texts.emplace_back(spec.name, inference::TypeText(spec));
  return texts;
}

std::vector<MetaGraph> ReadGraphs(const nb::bytes& saved_model) {
  const std::span bytes(reinterpret_cast<const std::byte*>(saved_model.c_str()),
                        saved_model.size());
  return FileValueOrThrow(WithoutGil([&] { return inference::ReadSavedModel(bytes); }));
}

std::vector<std::tuple<std::vector<std::string>, std::vector<Signature>>> SignaturesOf(
    const nb::bytes& saved_model) {
  std::vector<std::tuple<std::vector<std::string>, std::vector<Signature>>> result;
  for (MetaGraph& graph : ReadGraphs(saved_model)) {
    result.emplace_back(std::move(graph.tags), std::move(graph.signatures));
  }
  return result;
}

using InputTuple = std::tuple<std::string, std::string, std::string>;
using OutputTuple = std::tuple<std::string, std::string>;

std::unique_ptr<InferencePlan> MakePlan(const Signature& signature,
                                        const std::vector<InputTuple>& inputs,
                                        const std::vector<OutputTuple>& outputs,
                                        std::vector<std::string> binary, nb::handle schema) {
  inference::Mapping mapping{.inputs = {}, .outputs = {}, .binary = std::move(binary)};
  for (const auto& [column, tensor, splits] : inputs) {
    mapping.inputs.push_back({column, tensor, splits});
  }
  for (const auto& [tensor, column] : outputs) mapping.outputs.push_back({tensor, column});
  const ArrowImport table = ArrowImport::Schema(schema);
  return std::make_unique<InferencePlan>(
      FileValueOrThrow(InferencePlan::Make(signature, mapping, table.schema())));
}

/// A model that is loaded, with the TensorFlow that runs it.
class Session {
 public:
  Session(const std::string& tensorflow, tensorflow::SavedModelOptions options) {
    ThrowIfFileError(WithoutGil([&]() -> Status {
      TFOS_ASSIGN_OR_RETURN(api_, tensorflow::SessionApi::Load(tensorflow));
      TFOS_ASSIGN_OR_RETURN(model_, tensorflow::SavedModel::Load(api_, options));
      return Status::Ok();
    }));
  }

  const tensorflow::SavedModel& model() const { return *model_; }

 private:
  tensorflow::SessionApi api_{};  ///< Borrowed by the model.
  std::unique_ptr<tensorflow::SavedModel> model_;
};

ArrowBatch RunBatches(const Engine& engine, const nb::list& batches, std::uint64_t batch_rows,
                      std::uint64_t first_row) {
  std::vector<ArrowImport> imports;
  for (const nb::handle batch : batches) imports.push_back(ArrowImport::Batch(batch));
  std::vector<Engine::RecordBatch> borrowed;
  for (ArrowImport& batch : imports) {
    std::shared_ptr<const ArrowArray> array = batch.TakeArray();
    const ArrowArray& values = *array;
    borrowed.push_back({batch.schema(), values, std::move(array)});
  }
  return ArrowBatch([&](ArrowSchema& schema, ArrowArray& array) {
    ThrowIfFileError(WithoutGil([&]() -> Status {
      TFOS_ASSIGN_OR_RETURN(arrow::Field results, engine.Run(borrowed, batch_rows, first_row));
      schema = arrow::ExportSchema(results);
      array = arrow::ExportArray(std::move(results));
      return Status::Ok();
    }));
  });
}

}  // namespace

void BindInference(nb::module_& module) {
  nb::class_<Signature>(module, "Signature", "Inputs and outputs of a SavedModel. Can be pickled.")
      .def(nb::new_([](std::string name, const std::vector<TensorTuple>& inputs,
                       const std::vector<TensorTuple>& outputs) {
             return std::make_unique<Signature>(
                 Signature{std::move(name), SpecsFrom(inputs), SpecsFrom(outputs)});
           }),
           nb::arg("name"), nb::arg("inputs"), nb::arg("outputs"))
      .def("__reduce__",
           [](nb::handle self) {
             const auto& signature = nb::cast<const Signature&>(self);
             return nb::make_tuple(self.type(),
                                   nb::make_tuple(signature.name, TuplesFrom(signature.inputs),
                                                  TuplesFrom(signature.outputs)));
           })
      .def_ro("name", &Signature::name)
      .def_prop_ro(
          "inputs", [](const Signature& signature) { return TextsOf(signature.inputs); },
          "(name, type) of each.")
      .def_prop_ro("outputs",
                   [](const Signature& signature) { return TextsOf(signature.outputs); });
  module.def("saved_model_signatures", &SignaturesOf, nb::arg("saved_model"),
             "(tags, signatures) of each graph of what a saved_model.pb contains.");
  module.def(
      "find_signature",
      [](const nb::bytes& saved_model, const std::vector<std::string>& tags,
         const std::string& name) {
        return FileValueOrThrow(inference::FindSignature(ReadGraphs(saved_model), tags, name));
      },
      nb::arg("saved_model"), nb::arg("tags"), nb::arg("name"));

  module.def(
      "why_no_saved_model",
      [](std::string path, bool exists, bool is_directory, std::vector<std::string> below) {
        return inference::WhyNoSavedModel(
            {std::move(path), exists, is_directory, std::move(below)});
      },
      nb::arg("path"), nb::arg("exists"), nb::arg("is_directory"), nb::arg("below"),
      "Why a path without a saved_model.pb is not a SavedModel. below: directories that are one.");

  nb::class_<InferencePlan>(module, "InferencePlan",
                            "How columns go through a signature; made only if they fit.")
      .def(nb::new_(&MakePlan), nb::arg("signature"), nb::arg("inputs"), nb::arg("outputs"),
           nb::arg("binary"), nb::arg("schema"),
           "inputs: (column, tensor, the tensor with its row splits or ''); outputs: (tensor, "
           "column); binary: outputs whose strings are bytes; schema: of all columns.")
      .def_ro("columns", &InferencePlan::columns, "That record batches must have.")
      .def_ro("fixed_rows", &InferencePlan::fixed_rows, "Of each run, or None.")
      .def("output_type",
           [](const InferencePlan& plan) { return ArrowType(inference::OutputType(plan)); });

  nb::class_<Session>(module, "SavedModelSession", "A SavedModel that is loaded.")
      .def(nb::new_([](const std::string& tensorflow, std::string directory,
                       std::vector<std::string> tags, std::vector<std::string> op_libraries,
                       int threads) {
             return std::make_unique<Session>(
                 tensorflow, tensorflow::SavedModelOptions{.directory = std::move(directory),
                                                           .tags = std::move(tags),
                                                           .op_libraries = std::move(op_libraries),
                                                           .threads = threads});
           }),
           nb::arg("tensorflow"), nb::arg("directory"), nb::arg("tags"), nb::arg("op_libraries"),
           nb::arg("threads"),
           "tensorflow: where its libraries are; threads: 0 for one for each core.");

  nb::class_<Engine>(module, "InferenceEngine", "Runs record batches. Threads: any.")
      .def(nb::new_([](const Session& session, const InferencePlan& plan) {
             return FileValueOrThrow(Engine::Create(session.model(), plan));
           }),
           nb::arg("session"), nb::arg("plan"), nb::keep_alive<1, 2>())
      .def("run", &RunBatches, nb::arg("batches"), nb::arg("batch_rows"), nb::arg("first_row"),
           "The outputs for all rows of a list of record batches.");
}

}  // namespace tfos::python
