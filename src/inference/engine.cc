#include "inference/engine.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <string>
#include <utility>

#include "base/format.h"
#include "base/memory/aligned_buffer.h"
#include "columns/arrow/arrow_columns.h"
#include "inference/column_type.h"
#include "inference/output_column.h"

namespace tfos::inference {
namespace {

using columns::ArrowColumns;
using tensorflow::SessionTensor;

/// Hands out the rows of several record batches one behind the other, as blocks.
class RowCutter {
 public:
  RowCutter(const InferencePlan& plan, std::uint64_t first_row)
      : plan_(plan), next_row_(first_row) {}

  Status Add(const Engine::RecordBatch& batch) {
    const ArrowSchema& schema = batch.schema;
    TFOS_ASSIGN_OR_RETURN(std::unique_ptr<ArrowColumns> columns,
                          ArrowColumns::Open(schema, batch.array, columns::Decimals::kFloat64));
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < schema.n_children; ++i) {
      names.emplace_back(schema.children[i]->name == nullptr ? "" : schema.children[i]->name);
    }
    if (names != plan_.columns) {
      return {ErrorKind::kBadInput,
              fmt::format("a record batch has the columns {} instead of {}", fmt::join(names, ", "),
                          fmt::join(plan_.columns, ", "))};
    }
    TFOS_RETURN_IF_ERROR(CheckTypes(schema));
    rows_ += columns->rows();
    batches_.push_back({std::move(columns), batch.memory});
    return Status::Ok();
  }

  std::uint64_t rows() const { return rows_; }

  /// The next `count` rows, which there are.
  Result<std::vector<RowBlock>> Take(std::uint64_t count) {
    std::vector<RowBlock> blocks;
    while (count != 0) {
      ArrowColumns& batch = *batches_[batch_].columns;
      const std::uint64_t end = std::min<std::uint64_t>(batch.rows(), row_ + count);
      if (end > row_) {
        TFOS_RETURN_IF_ERROR(batch.Plan(row_, end, next_row_));
        TFOS_ASSIGN_OR_RETURN(RowBlock block, Planned(batches_[batch_]));
        blocks.push_back(std::move(block));
      }
      count -= end - row_;
      next_row_ += end - row_;
      row_ = end;
      if (row_ == batch.rows()) {
        ++batch_;
        row_ = 0;
      }
    }
    return blocks;
  }

 private:
  struct Batch {
    std::unique_ptr<ArrowColumns> columns;
    std::shared_ptr<const void> memory;
  };

  /// The plan was checked against another schema, and tensors are made as it says.
  Status CheckTypes(const ArrowSchema& schema) const {
    for (const PlannedInput& input : plan_.inputs) {
      const ColumnType type = ColumnType::Of(*schema.children[input.column]);
      const auto mismatch = input.splits ? RaggedMismatch(type, input.tensor, *input.splits)
                                         : Mismatch(type, input.tensor);
      if (!mismatch) continue;
      return {ErrorKind::kBadInput,
              fmt::format("a record batch has column {} of {} for input {}, which is {}: {}",
                          plan_.columns[input.column], type.text, input.tensor.name,
                          TypeText(input.tensor), *mismatch)};
    }
    return Status::Ok();
  }

  Result<RowBlock> Planned(const Batch& batch) {
    if (batch.memory != nullptr) {
      if (auto columns = batch.columns->InPlace()) {
        return RowBlock{
            .memory = batch.memory, .columns = *std::move(columns), .first_row = next_row_};
      }
    }
    return Copy(*batch.columns);
  }

  Result<RowBlock> Copy(ArrowColumns& batch) {
    // The tensor that had it may have died in another thread, whose reads come before our writes.
    const bool free = memory_.use_count() == 1;
    std::atomic_thread_fence(std::memory_order_acquire);
    if (!free || memory_->size() < batch.bytes()) {
      memory_ = std::make_shared<AlignedBuffer>(batch.bytes());
      if (memory_->size() == 0) throw std::bad_alloc();
    }
    const std::span<std::byte> bytes = memory_->bytes().first(batch.bytes());
    TFOS_RETURN_IF_ERROR(batch.Fill(bytes));
    TFOS_ASSIGN_OR_RETURN(const chunk::ChunkView view, chunk::ChunkView::Parse(bytes));
    return RowBlock{.memory = memory_, .columns = view.columns(), .first_row = next_row_};
  }

  const InferencePlan& plan_;
  std::vector<Batch> batches_;
  std::uint64_t rows_ = 0;
  std::size_t batch_ = 0;
  std::uint64_t row_ = 0;  ///< Of the batch.
  std::uint64_t next_row_;
  std::shared_ptr<AlignedBuffer> memory_;  ///< Used again once no tensor has it any more.
};

}  // namespace

Result<std::unique_ptr<Engine>> Engine::Create(const tensorflow::SavedModel& model,
                                               InferencePlan plan) {
  std::unique_ptr<Engine> engine(new Engine(model, std::move(plan)));
  const auto add = [&](std::vector<TF_Output>& to, const TensorSpec& tensor) -> Status {
    TFOS_ASSIGN_OR_RETURN(const TF_Output found, model.Find(tensor.edge));
    to.push_back(found);
    return Status::Ok();
  };
  for (const PlannedInput& input : engine->plan_.inputs) {
    TFOS_RETURN_IF_ERROR(add(engine->places_, input.tensor));
    if (input.splits) TFOS_RETURN_IF_ERROR(add(engine->places_, *input.splits));
  }
  for (const PlannedOutput& output : engine->plan_.outputs) {
    TFOS_RETURN_IF_ERROR(add(engine->wanted_, output.tensor));
  }
  return engine;
}

Result<arrow::Field> Engine::Run(std::span<const RecordBatch> batches, std::uint64_t batch_rows,
                                 std::uint64_t first_row) const {
  RowCutter cutter(plan_, first_row);
  for (const RecordBatch& batch : batches) TFOS_RETURN_IF_ERROR(cutter.Add(batch));
  std::vector<OutputColumn> columns;
  columns.reserve(plan_.outputs.size());
  for (const PlannedOutput& output : plan_.outputs) columns.emplace_back(output);
  const std::uint64_t step = plan_.fixed_rows.value_or(std::max<std::uint64_t>(batch_rows, 1));
  for (std::uint64_t done = 0; done < cutter.rows();) {
    const std::uint64_t rows = std::min(step, cutter.rows() - done);
    const std::uint64_t run_rows = plan_.fixed_rows ? step : rows;
    std::vector<SessionTensor> outputs;
    {
      TFOS_ASSIGN_OR_RETURN(const std::vector<RowBlock> blocks, cutter.Take(rows));
      TFOS_ASSIGN_OR_RETURN(const std::vector<SessionTensor> inputs,
                            MakeInputs(model_.api(), plan_, blocks, run_rows));
      TFOS_ASSIGN_OR_RETURN(outputs, model_.Run(places_, inputs, wanted_));
    }
    for (std::size_t i = 0; i < columns.size(); ++i) {
      TFOS_RETURN_IF_ERROR(columns[i].Append(model_.api(), outputs[i].get(), run_rows, rows));
    }
    done += rows;
  }
  arrow::Field result{.name = {},
                      .format = "+s",
                      .length = cutter.rows(),
                      .buffers = {nullptr},
                      .memory = {},
                      .children = {}};
  for (OutputColumn& column : columns) {
    TFOS_ASSIGN_OR_RETURN(arrow::Field field, column.Take());
    result.children.push_back(std::move(field));
  }
  return result;
}

arrow::Field OutputType(const InferencePlan& plan) {
  arrow::Field type{.name = {}, .format = "+s", .buffers = {}, .memory = {}, .children = {}};
  for (const PlannedOutput& output : plan.outputs)
    type.children.push_back(OutputColumn::Type(output));
  return type;
}

}  // namespace tfos::inference
