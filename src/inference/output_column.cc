#include "inference/output_column.h"

#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/text/utf8.h"
#include "inference/number_conversion.h"
#include "tensorflow/tf_codes.h"

namespace tfos::inference {
namespace {

using namespace tensorflow;  // NOLINT: its type codes.

constexpr std::uint64_t kMostElements = std::numeric_limits<std::int32_t>::max();

/// What elements of a type become.
struct ColumnElement {
  int from;
  int to;
  std::size_t bytes;
  const char* format;
};

constexpr ColumnElement kElements[] = {
    {kTfBool, kTfBool, 1, "b"},     {kTfInt8, kTfInt8, 1, "c"},      {kTfInt16, kTfInt16, 2, "s"},
    {kTfInt32, kTfInt32, 4, "i"},   {kTfInt64, kTfInt64, 8, "l"},    {kTfUint8, kTfInt16, 2, "s"},
    {kTfUint16, kTfInt32, 4, "i"},  {kTfUint32, kTfInt64, 8, "l"},   {kTfUint64, kTfInt64, 8, "l"},
    {kTfHalf, kTfFloat, 4, "f"},    {kTfBfloat16, kTfFloat, 4, "f"}, {kTfFloat, kTfFloat, 4, "f"},
    {kTfDouble, kTfDouble, 8, "g"}, {kTfString, kTfString, 1, "u"}};

const ColumnElement* ElementOf(int dtype) {
  for (const ColumnElement& element : kElements) {
    if (element.from == dtype) return &element;
  }
  return nullptr;
}

arrow::Field List(std::string name, arrow::Field values) {
  arrow::Field list{
      .name = std::move(name), .format = "+l", .buffers = {}, .memory = {}, .children = {}};
  list.children.push_back(std::move(values));
  return list;
}

arrow::Field Named(std::string name, const char* format) {
  return {.name = std::move(name), .format = format, .buffers = {}, .memory = {}, .children = {}};
}

std::string ShapeText(const SessionApi& api, const TF_Tensor* tensor) {
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < api.NumDims(tensor); ++i) sizes.push_back(api.Dim(tensor, i));
  return fmt::format("[{}]", fmt::join(sizes, ", "));
}

}  // namespace

std::optional<std::string> OutputMismatch(const TensorSpec& tensor) {
  if (tensor.edge.empty()) return "sparse and ragged tensors can't become columns";
  if (ElementOf(tensor.dtype) == nullptr) return "this type can't become a column";
  if (!tensor.shape) {
    return "a column needs to know how many dimensions; set them where the model is exported "
           "(tf.ensure_shape)";
  }
  if (tensor.shape->empty()) return "it has no dimension for the rows";
  return std::nullopt;
}

OutputColumn::OutputColumn(const PlannedOutput& output)
    : output_(output),
      dtype_(ElementOf(output.tensor.dtype)->to),
      element_bytes_(ElementOf(output.tensor.dtype)->bytes) {}

arrow::Field OutputColumn::Type(const PlannedOutput& output) {
  const bool text = output.tensor.dtype == kTfString && !output.binary;
  const char* const format = output.tensor.dtype == kTfString
                                 ? (text ? "u" : "z")
                                 : ElementOf(output.tensor.dtype)->format;
  const std::size_t depth = output.tensor.shape->size() - 1;
  arrow::Field field = Named(depth == 0 ? output.column : "element", format);
  for (std::size_t i = depth; i > 0; --i) {
    field = List(i == 1 ? output.column : "element", std::move(field));
  }
  return field;
}

Status OutputColumn::Bad(std::string what) const {
  return {ErrorKind::kBadInput,
          fmt::format("output {} ({}): {}", output_.tensor.name, TypeText(output_.tensor), what)};
}

Status OutputColumn::Append(const SessionApi& api, const TF_Tensor* tensor, std::uint64_t rows,
                            std::uint64_t kept) {
  const auto dimensions = static_cast<std::size_t>(api.NumDims(tensor));
  if (dimensions != output_.tensor.shape->size() ||
      static_cast<std::uint64_t>(api.Dim(tensor, 0)) != rows) {
    return Bad(fmt::format("the model gave a tensor of the shape {} for {} rows",
                           ShapeText(api, tensor), rows));
  }
  Part part{.rows = kept, .shape = {}};
  std::uint64_t count = kept;
  for (std::size_t i = 1; i < dimensions; ++i) {
    part.shape.push_back(static_cast<std::uint64_t>(api.Dim(tensor, static_cast<int>(i))));
    count *= part.shape.back();  // Of a tensor that exists.
  }
  elements_ += count;
  if (elements_ > kMostElements) {
    return {ErrorKind::kUnsupported,
            fmt::format("output {}: {} elements in one column of a batch; Arrow's lists take {}. "
                        "Use smaller batches (batchSize, batch_size or --batch-size)",
                        output_.tensor.name, elements_, kMostElements)};
  }
  if (parts_.empty() || parts_.back().shape != part.shape) {
    parts_.push_back(std::move(part));
  } else {
    parts_.back().rows += kept;
  }
  return output_.tensor.dtype == kTfString ? AppendStrings(api, tensor, count)
                                           : AppendNumbers(api, tensor, count);
}

Status OutputColumn::AppendStrings(const SessionApi& api, const TF_Tensor* tensor,
                                   std::uint64_t count) {
  auto* const strings = static_cast<const std::byte*>(api.TensorData(tensor));
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto* const string = reinterpret_cast<const TF_TString*>(strings + i * kTStringBytes);
    const std::string_view text(api.StringData(string), api.StringSize(string));
    if (!output_.binary && !IsUtf8(text)) {
      return Bad(
          "a string is not UTF-8; declare the output as binary (binary_outputs=, or "
          "--binary-output of tfos infer)");
    }
    if (text.size() > kMostElements - values_.size()) {
      return {ErrorKind::kUnsupported,
              fmt::format("output {}: its strings have over {} bytes in a batch; use smaller "
                          "batches (batchSize, batch_size or --batch-size)",
                          output_.tensor.name, kMostElements)};
    }
    if (!text.empty()) std::memcpy(values_.Extend(text.size()), text.data(), text.size());
    offsets_.Append(static_cast<std::int32_t>(values_.size()));
  }
  return Status::Ok();
}

Status OutputColumn::AppendNumbers(const SessionApi& api, const TF_Tensor* tensor,
                                   std::uint64_t count) {
  if (count == 0) return Status::Ok();
  const std::size_t bytes = count * api.DataTypeSize(output_.tensor.dtype);
  const std::span numbers(static_cast<const std::byte*>(api.TensorData(tensor)), bytes);
  const auto failed =
      ConvertNumbers(output_.tensor.dtype, numbers, dtype_, values_.Extend(count * element_bytes_));
  return failed ? Bad("a number is above 2^63 - 1, the largest that a column holds") : Status::Ok();
}

arrow::Field OutputColumn::TakeValues() {
  arrow::Field field =
      Named("element", output_.tensor.dtype == kTfString ? (output_.binary ? "z" : "u")
                                                         : ElementOf(output_.tensor.dtype)->format);
  field.length = elements_;
  if (output_.tensor.dtype == kTfString) {
    records::ValueBuffer<std::int32_t> offsets;
    std::int32_t* const begins = offsets.Extend(elements_ + 1);
    begins[0] = 0;
    if (elements_ != 0) {
      std::memcpy(begins + 1, offsets_.data(), elements_ * sizeof(std::int32_t));
    }
    const auto held = offsets.Take();
    const auto data = values_.Take();
    field.buffers = {nullptr, held.get(), data.get()};
    field.memory = {held, data};
    return field;
  }
  auto values = values_.Take();
  if (dtype_ == kTfBool) {
    records::ValueBuffer<std::byte> bits;
    std::byte* const packed = bits.Extend((elements_ + 7) / 8);
    std::memset(packed, 0, (elements_ + 7) / 8);
    for (std::uint64_t i = 0; i < elements_; ++i) {
      if (values.get()[i] != std::byte{0}) packed[i / 8] |= std::byte{1} << (i % 8);
    }
    values = bits.Take();
  }
  field.buffers = {nullptr, values.get()};
  field.memory = {values};
  return field;
}

Result<arrow::Field> OutputColumn::Take() {
  arrow::Field field = TakeValues();
  for (std::size_t level = output_.tensor.shape->size() - 1; level > 0; --level) {
    records::ValueBuffer<std::int32_t> offsets;
    std::uint64_t lists = 0;
    std::uint64_t end = 0;
    offsets.Append(0);
    for (const Part& part : parts_) {
      std::uint64_t count = part.rows;
      for (std::size_t i = 0; i + 1 < level; ++i) count *= part.shape[i];
      lists += count;
      if (lists > kMostElements) return Bad("more lists than a column of Arrow holds");
      for (std::uint64_t i = 0; i < count; ++i) {
        end += part.shape[level - 1];
        offsets.Append(static_cast<std::int32_t>(end));
      }
    }
    arrow::Field list = List("element", std::move(field));
    const auto held = offsets.Take();
    list.length = lists;
    list.buffers = {nullptr, held.get()};
    list.memory = {held};
    field = std::move(list);
  }
  field.name = output_.column;
  return field;
}

}  // namespace tfos::inference
