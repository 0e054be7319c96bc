#include "inference/inference_plan.h"

#include <algorithm>
#include <set>
#include <span>
#include <string_view>

#include "base/format.h"
#include "inference/column_type.h"
#include "inference/output_column.h"
#include "tensorflow/tf_codes.h"

namespace tfos::inference {
namespace {

const TensorSpec* FindTensor(const std::vector<TensorSpec>& tensors, std::string_view name) {
  const auto found = std::ranges::find(tensors, name, &TensorSpec::name);
  return found == tensors.end() ? nullptr : &*found;
}

std::string NamesOf(const std::vector<TensorSpec>& tensors) {
  std::vector<std::string> texts;
  for (const TensorSpec& tensor : tensors) texts.push_back(tensor.name + " " + TypeText(tensor));
  return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
}

class Planner {
 public:
  Planner(const Signature& signature, const ArrowSchema& table)
      : signature_(signature), table_(table) {}

  void AddInput(const InputMapping& mapping) {
    const TensorSpec* const tensor = Take(mapping.tensor);
    const TensorSpec* const splits = mapping.splits.empty() ? nullptr : Take(mapping.splits);
    if (tensor == nullptr || (splits == nullptr && !mapping.splits.empty())) return;
    const ArrowSchema* const column = Column(mapping.column);
    const std::string expected =
        fmt::format("input {}: expected {}", tensor->name, TypeText(*tensor));
    if (column == nullptr) {
      problems_.push_back(fmt::format("{}, found no column '{}'", expected, mapping.column));
      return;
    }
    if (IsTwice(mapping.column)) {
      problems_.push_back(
          fmt::format("{}, found more than one column '{}'", expected, mapping.column));
      return;
    }
    const ColumnType type = ColumnType::Of(*column);
    const auto mismatch =
        splits == nullptr ? Mismatch(type, *tensor) : RaggedMismatch(type, *tensor, *splits);
    if (mismatch) {
      problems_.push_back(fmt::format("{}, found column '{}' of {}: {}", expected, mapping.column,
                                      type.text, *mismatch));
      return;
    }
    PlannedInput input{.column = PositionOf(mapping.column), .tensor = *tensor, .splits = {}};
    if (splits != nullptr) input.splits = *splits;
    // The splits of a ragged tensor tell its rows.
    if (splits == nullptr && tensor->shape) FixRows(*tensor);
    plan_.inputs.push_back(std::move(input));
  }

  void AddOutput(const OutputMapping& mapping, bool binary) {
    const TensorSpec* const tensor = FindTensor(signature_.outputs, mapping.tensor);
    if (tensor == nullptr) {
      problems_.push_back(fmt::format("output {}: the signature has no such output; it has {}",
                                      mapping.tensor, NamesOf(signature_.outputs)));
      return;
    }
    if (!output_columns_.insert(mapping.column).second) {
      problems_.push_back(fmt::format("output {}: the results would have column '{}' twice",
                                      mapping.tensor, mapping.column));
    }
    if (const auto mismatch = OutputMismatch(*tensor)) {
      problems_.push_back(fmt::format("output {}: expected one value for each row, found {}: {}",
                                      tensor->name, TypeText(*tensor), *mismatch));
      return;
    }
    plan_.outputs.push_back({*tensor, mapping.column, binary});
  }

  void CheckBinary(const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      const TensorSpec* const tensor = FindTensor(signature_.outputs, name);
      if (tensor != nullptr && tensor->dtype == tensorflow::kTfString) continue;
      problems_.push_back(fmt::format("binary output {}: expected an output of strings, found {}",
                                      name, tensor == nullptr ? "none" : TypeText(*tensor)));
    }
  }

  Result<InferencePlan> Finish() {
    for (const TensorSpec& input : signature_.inputs) {
      if (taken_.contains(input.name)) continue;
      problems_.push_back(fmt::format("input {}: expected {}, found no column mapped to it",
                                      input.name, TypeText(input)));
    }
    if (problems_.empty()) return std::move(plan_);
    return Status(ErrorKind::kBadInput,
                  fmt::format("the columns don't fit the signature '{}':\n  {}\n  The columns: {}",
                              signature_.name, fmt::join(problems_, "\n  "), ColumnsText()));
  }

 private:
  const TensorSpec* Take(const std::string& name) {
    const TensorSpec* const tensor = FindTensor(signature_.inputs, name);
    if (tensor == nullptr) {
      problems_.push_back(fmt::format("input {}: the signature has no such input; it has {}", name,
                                      NamesOf(signature_.inputs)));
    } else if (!taken_.insert(name).second) {
      problems_.push_back(fmt::format("input {}: it is mapped twice", name));
    }
    return tensor;
  }

  const ArrowSchema* Column(std::string_view name) const {
    const auto columns = Columns();
    const auto found = std::ranges::find(columns, name, &NameOf);
    return found == columns.end() ? nullptr : *found;
  }

  bool IsTwice(std::string_view name) const {
    return std::ranges::count(Columns(), name, &NameOf) > 1;
  }

  std::span<ArrowSchema* const> Columns() const {
    return {table_.children, static_cast<std::size_t>(table_.n_children)};
  }

  static std::string_view NameOf(const ArrowSchema* column) {
    return column->name == nullptr ? "" : column->name;
  }

  std::size_t PositionOf(const std::string& column) {
    const auto found = std::ranges::find(plan_.columns, column);
    const auto position = static_cast<std::size_t>(found - plan_.columns.begin());
    if (found == plan_.columns.end()) plan_.columns.push_back(column);
    return position;
  }

  void FixRows(const TensorSpec& tensor) {
    const std::int64_t rows = tensor.shape->front();
    if (rows == TensorSpec::kUnknown) return;
    if (rows == 0 || (plan_.fixed_rows && *plan_.fixed_rows != static_cast<std::uint64_t>(rows))) {
      problems_.push_back(fmt::format("input {}: {} does not go with the rows of other inputs",
                                      tensor.name, TypeText(tensor)));
    }
    plan_.fixed_rows = static_cast<std::uint64_t>(rows);
  }

  std::string ColumnsText() const {
    std::vector<std::string> texts;
    for (const ArrowSchema* const column : Columns()) {
      texts.push_back(fmt::format("{} {}", NameOf(column), ColumnType::Of(*column).text));
    }
    return texts.empty() ? "none" : fmt::format("{}", fmt::join(texts, ", "));
  }

  const Signature& signature_;
  const ArrowSchema& table_;
  InferencePlan plan_;
  std::set<std::string> taken_;
  std::set<std::string> output_columns_;
  std::vector<std::string> problems_;
};

}  // namespace

Result<InferencePlan> InferencePlan::Make(const Signature& signature, const Mapping& mapping,
                                          const ArrowSchema& table) {
  Planner planner(signature, table);
  if (mapping.inputs.empty()) {
    for (const TensorSpec& input : signature.inputs) {
      planner.AddInput({.column = input.name, .tensor = input.name, .splits = {}});
    }
  }
  for (const InputMapping& input : mapping.inputs) planner.AddInput(input);
  const auto add_output = [&](const OutputMapping& output) {
    planner.AddOutput(output,
                      std::ranges::find(mapping.binary, output.tensor) != mapping.binary.end());
  };
  if (mapping.outputs.empty()) {
    for (const TensorSpec& output : signature.outputs) add_output({output.name, output.name});
  }
  for (const OutputMapping& output : mapping.outputs) add_output(output);
  planner.CheckBinary(mapping.binary);
  return planner.Finish();
}

}  // namespace tfos::inference
