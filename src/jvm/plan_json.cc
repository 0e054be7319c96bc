#include "jvm/plan_json.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "arrow/c_data.h"
#include "arrow/releasing.h"
#include "inference/engine.h"
#include "jvm/column_layout.h"

namespace tfos::jvm {
namespace {

using inference::Signature;
using inference::TensorSpec;
using nlohmann::json;

json TensorsToJson(const std::vector<TensorSpec>& tensors) {
  json list = json::array();
  for (const TensorSpec& tensor : tensors) {
    list.push_back({{"name", tensor.name},
                    {"edge", tensor.edge},
                    {"dtype", tensor.dtype},
                    {"shape", tensor.shape ? json(*tensor.shape) : json()},
                    {"type", inference::TypeText(tensor)}});
  }
  return list;
}

std::vector<TensorSpec> TensorsFromJson(const json& list) {
  std::vector<TensorSpec> tensors;
  for (const json& item : list) {
    TensorSpec tensor{.name = item.at("name").get<std::string>(),
                      .edge = item.at("edge").get<std::string>(),
                      .dtype = item.at("dtype").get<int>(),
                      .shape = std::nullopt};
    const json& shape = item.at("shape");
    if (!shape.is_null()) tensor.shape = shape.get<std::vector<std::int64_t>>();
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

json SignatureToJson(const Signature& signature) {
  return {{"name", signature.name},
          {"inputs", TensorsToJson(signature.inputs)},
          {"outputs", TensorsToJson(signature.outputs)}};
}

Signature SignatureFromJson(const json& signature) {
  return {.name = signature.at("name").get<std::string>(),
          .inputs = TensorsFromJson(signature.at("inputs")),
          .outputs = TensorsFromJson(signature.at("outputs"))};
}

Result<PlannedTable> PlanFromJson(const json& request) {
  inference::Mapping mapping{
      .inputs = {},
      .outputs = {},
      .binary = request.at("binary").get<std::vector<std::string>>(),
  };
  for (const json& input : request.at("inputs")) {
    mapping.inputs.push_back({.column = input.at(0).get<std::string>(),
                              .tensor = input.at(1).get<std::string>(),
                              .splits = input.at(2).get<std::string>()});
  }
  for (const json& output : request.at("outputs")) {
    mapping.outputs.push_back(
        {.tensor = output.at(0).get<std::string>(), .column = output.at(1).get<std::string>()});
  }
  const arrow::Field table = TypeFromJson(request.at("table"));
  ArrowSchema schema = arrow::ExportSchema(table);
  const arrow::Releasing release(schema);
  auto made =
      inference::InferencePlan::Make(SignatureFromJson(request.at("signature")), mapping, schema);
  if (!made.ok()) return made.status();
  PlannedTable planned{.plan = std::move(made).value(), .columns = table};
  planned.columns.children.clear();
  for (const std::string& name : planned.plan.columns) {
    planned.columns.children.push_back(
        *std::ranges::find(table.children, name, &arrow::Field::name));
  }
  return planned;
}

json PlanToJson(const inference::InferencePlan& plan) {
  return {{"columns", plan.columns},
          {"fixedRows", plan.fixed_rows.value_or(0)},
          {"results", TypeToJson(inference::OutputType(plan))}};
}

}  // namespace tfos::jvm
