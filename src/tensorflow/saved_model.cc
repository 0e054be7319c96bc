#include "tensorflow/saved_model.h"

#include <charconv>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "tensorflow/tf_codes.h"

namespace tfos::tensorflow {
namespace {

struct DeleteStatus {
  const SessionApi* api;
  void operator()(TF_Status* status) const { api->DeleteStatus(status); }
};
using StatusPointer = std::unique_ptr<TF_Status, DeleteStatus>;

StatusPointer NewStatus(const SessionApi& api) { return {api.NewStatus(), DeleteStatus{&api}}; }

ErrorKind KindOf(int code) {
  switch (code) {
    case kTfInvalidArgument:
    case kTfNotFound:
    case kTfFailedPrecondition:
    case kTfOutOfRange:
      return ErrorKind::kBadInput;
    case kTfDeadlineExceeded:
    case kTfResourceExhausted:
    case kTfUnavailable:
      return ErrorKind::kRetryLater;
    default:
      return ErrorKind::kUnsupported;
  }
}

Status StatusOf(const SessionApi& api, const TF_Status* status) {
  const int code = api.GetCode(status);
  if (code == kTfOk) return Status::Ok();
  std::string message = api.Message(status);
  if (message.find("Op type not registered") != std::string::npos) {
    message += " (load the library that has the op: op_libraries=, or --op-library of tfos infer)";
  }
  return {KindOf(code), fmt::format("TensorFlow: {}", message)};
}

Status LoadOps(const SessionApi& api, const std::string& library) {
  const StatusPointer status = NewStatus(api);
  TF_Library* const handle = api.LoadLibrary(library.c_str(), status.get());
  const Status loaded = StatusOf(api, status.get());
  if (!loaded.ok()) {
    return {ErrorKind::kBadInput,
            fmt::format("{} can't be loaded as a library of ops: {}", library, loaded.message())};
  }
  api.DeleteLibraryHandle(handle);  // The library stays.
  return Status::Ok();
}

void AppendVarint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

/// A ConfigProto of tensorflow/core/protobuf/config.proto.
std::string ConfigFor(int threads) {
  std::string config = "\x32\x02\x20\x01";  // gpu_options.allow_growth
  if (threads > 0) {
    config += '\x10';  // intra_op_parallelism_threads
    AppendVarint(config, static_cast<std::uint64_t>(threads));
    config += '\x28';  // inter_op_parallelism_threads
    AppendVarint(config, static_cast<std::uint64_t>(threads));
  }
  return config;
}

// RunOptions with inter_op_thread_pool = -1: ops run in the thread that calls.
constexpr std::string_view kInCallersThread = "\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";

}  // namespace

Result<std::unique_ptr<SavedModel>> SavedModel::Load(const SessionApi& api,
                                                     const SavedModelOptions& options) {
  for (const std::string& library : options.op_libraries) {
    TFOS_RETURN_IF_ERROR(LoadOps(api, library));
  }
  std::unique_ptr<SavedModel> model(new SavedModel(api));
  const StatusPointer status = NewStatus(api);
  const auto free_options = [&api](TF_SessionOptions* made) { api.DeleteSessionOptions(made); };
  const std::unique_ptr<TF_SessionOptions, decltype(free_options)> session_options(
      api.NewSessionOptions(), free_options);
  const std::string config = ConfigFor(options.threads);
  api.SetConfig(session_options.get(), config.data(), config.size(), status.get());
  TFOS_RETURN_IF_ERROR(StatusOf(api, status.get()));
  std::vector<const char*> tags;
  for (const std::string& tag : options.tags) tags.push_back(tag.c_str());
  model->graph_ = api.NewGraph();
  model->session_ = api.LoadSessionFromSavedModel(
      session_options.get(), nullptr, options.directory.c_str(), tags.data(),
      static_cast<int>(tags.size()), model->graph_, nullptr, status.get());
  TFOS_RETURN_IF_ERROR(StatusOf(api, status.get())
                           .Annotate(fmt::format("loading the SavedModel in {} with the tags {}",
                                                 options.directory, fmt::join(options.tags, ","))));
  if (options.threads == 1) {
    model->run_options_ = api.NewBufferFromString(kInCallersThread.data(), kInCallersThread.size());
  }
  return model;
}

SavedModel::~SavedModel() {
  if (run_options_ != nullptr) api_.DeleteBuffer(run_options_);
  if (session_ != nullptr) {
    const StatusPointer status = NewStatus(api_);
    api_.CloseSession(session_, status.get());
    api_.DeleteSession(session_, status.get());
  }
  if (graph_ != nullptr) api_.DeleteGraph(graph_);
}

Result<TF_Output> SavedModel::Find(const std::string& name) const {
  const std::size_t colon = name.rfind(':');
  int index = 0;
  if (colon != std::string::npos) {
    const char* const end = name.data() + name.size();
    const auto parsed = std::from_chars(name.data() + colon + 1, end, index);
    if (parsed.ec != std::errc() || parsed.ptr != end) index = -1;
  }
  TF_Operation* const operation = api_.GraphOperationByName(graph_, name.substr(0, colon).c_str());
  if (operation == nullptr || index < 0 || index >= api_.OperationNumOutputs(operation)) {
    return Status(
        ErrorKind::kBadInput,
        fmt::format("the signature names the tensor '{}', which the graph does not have", name));
  }
  return TF_Output{operation, index};
}

Result<std::vector<SessionTensor>> SavedModel::Run(std::span<const TF_Output> places,
                                                   std::span<const SessionTensor> inputs,
                                                   std::span<const TF_Output> wanted) const {
  const StatusPointer status = NewStatus(api_);
  std::vector<TF_Tensor*> given;
  given.reserve(inputs.size());
  for (const SessionTensor& input : inputs) given.push_back(input.get());
  std::vector<TF_Tensor*> taken(wanted.size());
  api_.SessionRun(session_, run_options_, places.data(), given.data(),
                  static_cast<int>(given.size()), wanted.data(), taken.data(),
                  static_cast<int>(taken.size()), nullptr, 0, nullptr, status.get());
  TFOS_RETURN_IF_ERROR(StatusOf(api_, status.get()));
  std::vector<SessionTensor> outputs;
  outputs.reserve(taken.size());
  for (TF_Tensor* tensor : taken) outputs.emplace_back(tensor, DeleteSessionTensor{&api_});
  return outputs;
}

}  // namespace tfos::tensorflow
