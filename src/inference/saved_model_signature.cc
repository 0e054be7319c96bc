#include "inference/saved_model_signature.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/format.h"
#include "base/text/utf8.h"
#include "chunk/dtype.h"
#include "records/schema/wire_format.h"
#include "tensorflow/chunk_type.h"
#include "tensorflow/tf_codes.h"

namespace tfos::inference {
namespace {

using records::ForEachBytes;
using records::WireReader;
using records::WireType;
using Bytes = std::span<const std::byte>;

constexpr std::size_t kMostGraphs = 4'096;
constexpr std::size_t kMostSignatures = 4'096;
constexpr std::size_t kMostTags = 4'096;
constexpr std::size_t kMostTensors = 65'536;
constexpr std::size_t kMostDimensions = 254;
constexpr std::string_view kOfTensorFlow = "__saved_model_";

// Field numbers of saved_model.proto, meta_graph.proto and tensor_shape.proto.
constexpr std::uint32_t kGraphField = 2;      // Of SavedModel.
constexpr std::uint32_t kInfoField = 1;       // Of MetaGraphDef.
constexpr std::uint32_t kSignatureField = 5;  // A map.
constexpr std::uint32_t kTagField = 4;        // Of MetaInfoDef.
constexpr std::uint32_t kInputField = 1;      // Of SignatureDef; a map.
constexpr std::uint32_t kOutputField = 2;     // A map.
constexpr std::uint32_t kEdgeField = 1;       // Of TensorInfo.
constexpr std::uint32_t kDtypeField = 2;
constexpr std::uint32_t kShapeField = 3;
constexpr std::uint32_t kSparseField = 4;
constexpr std::uint32_t kCompositeField = 5;
constexpr std::uint32_t kDimensionField = 2;  // Of TensorShapeProto.
constexpr std::uint32_t kUnknownRankField = 3;
constexpr std::uint32_t kSizeField = 1;  // Of Dim.
constexpr std::uint32_t kKeyField = 1;   // Of an entry of a map.
constexpr std::uint32_t kValueField = 2;

/// A name: false when it isn't text.
bool ReadText(Bytes bytes, std::string& text) {
  text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return IsUtf8(text);
}

/// Calls `number(field, value)` for varints and `bytes(field, value)` for what has a length.
template <typename Number, typename Use>
bool ForEachField(Bytes message, Number&& number, Use&& use) {
  WireReader reader(message);
  while (!reader.done()) {
    std::uint32_t field = 0;
    WireType type{};
    if (!reader.ReadTag(field, type)) return false;
    std::uint64_t value = 0;
    Bytes bytes;
    if (type == WireType::kVarint) {
      if (!reader.ReadVarint(value)) return false;
      number(field, value);
    } else if (type == WireType::kBytes) {
      if (!reader.ReadBytes(bytes) || !use(field, bytes)) return false;
    } else if (!reader.Skip(field, type)) {
      return false;
    }
  }
  return true;
}

bool ReadDimension(Bytes message, std::int64_t& size) {
  size = 0;
  return ForEachField(
             message,
             [&](std::uint32_t field, std::uint64_t value) {
               if (field == kSizeField) size = static_cast<std::int64_t>(value);
             },
             [](std::uint32_t, Bytes) { return true; }) &&
         size >= TensorSpec::kUnknown;
}

bool ReadShape(Bytes message, TensorSpec& spec) {
  bool unknown_rank = false;
  const bool read = ForEachField(
      message,
      [&](std::uint32_t field, std::uint64_t value) {
        if (field == kUnknownRankField) unknown_rank = value != 0;
      },
      [&](std::uint32_t field, Bytes bytes) {
        if (field != kDimensionField || !spec.shape) return true;
        std::int64_t size = 0;
        if (spec.shape->size() == kMostDimensions || !ReadDimension(bytes, size)) return false;
        spec.shape->push_back(size);
        return true;
      });
  if (unknown_rank) spec.shape.reset();
  return read;
}

bool ReadTensor(Bytes message, TensorSpec& spec) {
  bool has_shape = false;
  const bool read = ForEachField(
      message,
      [&](std::uint32_t field, std::uint64_t value) {
        if (field == kDtypeField) spec.dtype = static_cast<int>(value & 0x7FFFFFFF);
      },
      [&](std::uint32_t field, Bytes bytes) {
        if (field == kEdgeField) return ReadText(bytes, spec.edge);
        if (field == kSparseField || field == kCompositeField) spec.edge.clear();
        if (field != kShapeField) return true;
        has_shape = true;
        return ReadShape(bytes, spec);
      });
  // As protobuf has it, no shape at all would be a scalar; TensorFlow writes it for unknown ones.
  if (!has_shape) spec.shape.reset();
  return read;
}

/// Adds or replaces what an entry of a map has; `read(bytes, value)` reads that.
template <typename Value, typename Read>
bool ReadEntry(Bytes entry, std::size_t most, std::map<std::string, Value>& map, Read&& read) {
  std::string key;
  Bytes content = entry.first(0);
  const bool parsed = ForEachBytes(entry, [&](std::uint32_t field, Bytes bytes) {
    if (field == kValueField) content = bytes;
    return field != kKeyField || ReadText(bytes, key);
  });
  Value value;
  if (!parsed || !read(content, value)) return false;
  value.name = key;
  map.insert_or_assign(std::move(key), std::move(value));
  return map.size() <= most;
}

template <typename Value>
std::vector<Value> ValuesOf(std::map<std::string, Value> map) {
  std::vector<Value> values;
  values.reserve(map.size());
  for (auto& [name, value] : map) values.push_back(std::move(value));
  return values;
}

bool ReadSignature(Bytes message, Signature& signature) {
  std::map<std::string, TensorSpec> inputs;
  std::map<std::string, TensorSpec> outputs;
  const bool read = ForEachBytes(message, [&](std::uint32_t field, Bytes bytes) {
    if (field == kInputField) return ReadEntry(bytes, kMostTensors, inputs, ReadTensor);
    if (field == kOutputField) return ReadEntry(bytes, kMostTensors, outputs, ReadTensor);
    return true;
  });
  signature.inputs = ValuesOf(std::move(inputs));
  signature.outputs = ValuesOf(std::move(outputs));
  return read;
}

bool ReadGraph(Bytes message, MetaGraph& graph) {
  std::map<std::string, Signature> signatures;
  const bool read = ForEachBytes(message, [&](std::uint32_t field, Bytes bytes) {
    if (field == kSignatureField) {
      return ReadEntry(bytes, kMostSignatures, signatures, ReadSignature);
    }
    if (field != kInfoField) return true;
    return ForEachBytes(bytes, [&](std::uint32_t part, Bytes tag) {
      if (part != kTagField) return true;
      graph.tags.emplace_back();
      return graph.tags.size() <= kMostTags && ReadText(tag, graph.tags.back());
    });
  });
  std::erase_if(signatures,
                [](const auto& named) { return named.first.starts_with(kOfTensorFlow); });
  graph.signatures = ValuesOf(std::move(signatures));
  return read;
}

std::vector<std::string> Sorted(std::span<const std::string> tags) {
  std::vector<std::string> sorted(tags.begin(), tags.end());
  std::ranges::sort(sorted);
  return sorted;
}

}  // namespace

Result<std::vector<MetaGraph>> ReadSavedModel(Bytes saved_model) {
  std::vector<MetaGraph> graphs;
  const bool read = ForEachBytes(saved_model, [&](std::uint32_t field, Bytes bytes) {
    if (field != kGraphField) return true;
    graphs.emplace_back();
    return graphs.size() <= kMostGraphs && ReadGraph(bytes, graphs.back());
  });
  if (!read || graphs.empty()) {
    return Status(ErrorKind::kBadInput, "these bytes are not a SavedModel with a graph");
  }
  return graphs;
}

Result<Signature> FindSignature(std::span<const MetaGraph> graphs,
                                std::span<const std::string> tags, std::string_view name) {
  const std::vector<std::string> wanted = Sorted(tags);
  std::vector<std::string> found;
  for (const MetaGraph& graph : graphs) {
    if (Sorted(graph.tags) != wanted) {
      found.push_back(fmt::format("'{}'", fmt::join(graph.tags, ",")));
      continue;
    }
    const auto signature = std::ranges::find(graph.signatures, name, &Signature::name);
    if (signature != graph.signatures.end()) return *signature;
    std::vector<std::string> names;
    for (const Signature& other : graph.signatures) names.push_back("'" + other.name + "'");
    return Status(ErrorKind::kBadInput,
                  fmt::format("the SavedModel has no signature '{}'; it has {}", name,
                              names.empty() ? "none: export it with signatures"
                                            : fmt::format("{}", fmt::join(names, ", "))));
  }
  return Status(ErrorKind::kBadInput,
                fmt::format("the SavedModel has no graph with the tags '{}'; it has {}",
                            fmt::join(tags, ","), fmt::join(found, " and ")));
}

std::string WhyNoSavedModel(NoSavedModel found) {
  if (!found.exists) return "no such directory: " + found.path;
  std::ranges::sort(found.below);
  std::string hint;
  if (!found.is_directory) {
    hint = "; this is a file, and a SavedModel a directory";
  } else if (!found.below.empty()) {
    hint = fmt::format("; {} would be one", fmt::join(found.below, ", "));
  }
  return fmt::format(
      "{} has no saved_model.pb, so it isn't a SavedModel: export one with model.export(...) or "
      "tf.saved_model.save(...){}",
      found.path, hint);
}

std::string DataTypeName(int dtype) {
  if (dtype == tensorflow::kTfString) return "string";
  if (dtype == tensorflow::kTfBfloat16) return "bfloat16";
  for (const chunk::DTypeInfo& type : chunk::kDTypes) {
    if (tensorflow::TypeOfChunk(static_cast<std::int32_t>(type.dtype)) == dtype) {
      return std::string(type.name);
    }
  }
  return fmt::format("type {}", dtype);
}

std::string TypeText(const TensorSpec& spec) {
  if (!spec.shape) return DataTypeName(spec.dtype) + " of any shape";
  std::vector<std::string> sizes;
  for (const std::int64_t size : *spec.shape) {
    sizes.push_back(size == TensorSpec::kUnknown ? "?" : std::to_string(size));
  }
  return fmt::format("{}[{}]", DataTypeName(spec.dtype), fmt::join(sizes, ", "));
}

}  // namespace tfos::inference
