#ifndef TFOS_JVM_PLAN_JSON_H_
#define TFOS_JVM_PLAN_JSON_H_

#include <nlohmann/json_fwd.hpp>

#include "arrow/export.h"
#include "inference/inference_plan.h"
#include "inference/saved_model_signature.h"
#include "tfos/status.h"

namespace tfos::jvm {

// How signatures and plans cross between Java and C++: as JSON, once for each model and task.
//
//   signature  {"name", "inputs": [tensor...], "outputs": [tensor...]}
//   tensor     {"name", "edge", "dtype", "shape": [sizes] or null, "type": "float32[?, 784]"}
//   request    {"signature", "inputs": [[column, tensor, splits or ""]...],
//               "outputs": [[tensor, column]...], "binary": [tensor...], "table": type}
//   plan       {"columns": [names], "fixedRows": number or 0, "results": type}
//
// with types as column_layout.h has them. The functions that take JSON throw
// nlohmann::json::exception for another one, which Java has no reason to make.

nlohmann::json SignatureToJson(const inference::Signature& signature);
inference::Signature SignatureFromJson(const nlohmann::json& json);

/// A plan with the type of the record batches that it wants.
struct PlannedTable {
  inference::InferencePlan plan;
  arrow::Field columns;  ///< A struct of the plan's columns, in their order.
};

/// kBadInput as InferencePlan::Make.
Result<PlannedTable> PlanFromJson(const nlohmann::json& request);
nlohmann::json PlanToJson(const inference::InferencePlan& plan);

}  // namespace tfos::jvm

#endif  // TFOS_JVM_PLAN_JSON_H_
