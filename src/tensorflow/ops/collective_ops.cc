// The ops of tfos.collective
//
//   TfosAllReduce(group, weight, tensors) -> reduced, total: sums; with the attribute `average`
//       means by weight, and the sum of the weights; with `wire`, a TF_DataType, rounded to that
//       between hosts
//   TfosBroadcast(group, tensors) -> broadcast: the tensors of member `root`
//   TfosAllGather(group, tensor) -> gathered, first: everybody's rows, one member after the other,
//       and which is this member's first
//
// `total` and `first` are for gradients: other members may be there when these are computed.
//
// They block the thread that runs them, as kernels of the C API that finish later than their
// compute function crash. Stateful ops keep the program's order within a tf.function, which must
// be the same on all nodes.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tensorflow/ops/op_library.h"
#include "tensorflow/ops/registry.h"
#include "tensorflow/ops/tensor_group_table.h"

namespace tfos::tensorflow {
namespace {

using Group = Reference<tfos_tensor_group>;

/// What an op of the graph says of itself.
struct Kernel {
  std::string name;
  std::int64_t root = 0;
  std::int64_t average = 0;
  std::int64_t wire = 0;
};

std::unique_ptr<Kernel> ReadKernel(TF_OpKernelConstruction* construction, TF_Status* status) {
  auto kernel = std::make_unique<Kernel>();
  std::int32_t list = 0, total = 0;
  Api().GetAttrSize(construction, "tag", &list, &total, status);
  if (Api().GetCode(status) == kTfOk) {
    kernel->name.resize(static_cast<std::size_t>(total));
    Api().GetAttrString(construction, "tag", kernel->name.data(), kernel->name.size(), status);
  }
  if (Api().GetCode(status) == kTfOk) {
    Api().GetAttrInt64(construction, "root", &kernel->root, status);
  }
  if (Api().GetCode(status) == kTfOk) {
    Api().GetAttrInt64(construction, "average", &kernel->average, status);
  }
  if (Api().GetCode(status) == kTfOk) {
    Api().GetAttrInt64(construction, "wire", &kernel->wire, status);
  }
  return kernel;
}

void* Create(TF_OpKernelConstruction* construction) {
  const StatusPointer status(Api().NewStatus());
  std::unique_ptr<Kernel> kernel;
  GuardedInto(status.get(), [&] { kernel = ReadKernel(construction, status.get()); });
  if (Api().GetCode(status.get()) != kTfOk) {
    Api().OpKernelConstructionFailure(construction, status.get());
  }
  return kernel.release();
}

void Destroy(void* kernel) { delete static_cast<Kernel*>(kernel); }

template <typename T>
std::optional<T> ScalarOf(TF_OpKernelContext* context, int index, TF_Status* status) {
  const TensorPointer input = InputOf(context, index, status);
  if (input == nullptr) return std::nullopt;
  if (Api().TensorByteSize(input.get()) != sizeof(T)) {
    Api().SetStatus(status, kTfInvalidArgument, "a single number is wanted");
    return std::nullopt;
  }
  return *static_cast<const T*>(Api().TensorData(input.get()));
}

/// The group that the op's first input names; none with `status` set when there is none.
std::optional<Group> GroupOf(TF_OpKernelContext* context, TF_Status* status) {
  const auto handle = ScalarOf<std::int64_t>(context, 0, status);
  if (!handle) return std::nullopt;
  auto group = Registry<tfos_tensor_group>::Process().Find(*handle);
  if (!group) Api().SetStatus(status, kTfUnavailable, "this node has left its group");
  return group;
}

std::vector<std::int64_t> ShapeOf(const TF_Tensor* tensor) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(Api().NumDims(tensor)));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    shape[i] = Api().Dim(tensor, static_cast<int>(i));
  }
  return shape;
}

/// Of the 256 bytes of a name that members compare: the rest is for what Python says.
constexpr std::size_t kMostShapeBytes = 64;

/// What members compare. The shapes are those of the run: what each member knows of them before
/// differs, such as where one has traced a function with other sizes. They are in front, as long
/// names are cut; of many shapes a checksum is (FNV-1a).
std::string NameWith(const std::vector<std::vector<std::int64_t>>& shapes, const Kernel& kernel) {
  std::string text;
  for (const std::vector<std::int64_t>& shape : shapes) {
    text += text.empty() ? "(" : " (";
    for (const std::int64_t size : shape) text += std::to_string(size) + ",";
    text += ")";
  }
  if (text.size() <= kMostShapeBytes) return text + " " + kernel.name;
  std::uint64_t sum = 0xcbf29ce484222325;
  for (const char letter : text) {
    sum = (sum ^ static_cast<unsigned char>(letter)) * 0x100000001b3;
  }
  return std::to_string(shapes.size()) + " shapes " + std::to_string(sum) + " " + kernel.name +
         ": " + text;
}

/// Gives the op's output `index`, a single number of a type that TensorFlow calls `dtype`.
template <typename T>
void SetScalar(TF_OpKernelContext* context, int index, int dtype, T value, TF_Status* status) {
  const TensorPointer output(
      Api().AllocateOutput(context, index, dtype, nullptr, 0, sizeof(T), status));
  if (Api().GetCode(status) == kTfOk) {
    std::memcpy(Api().TensorData(output.get()), &value, sizeof(T));
  }
}

void SetFailure(const Group& group, std::int32_t code, char* message, TF_Status* status) {
  if (code == kTfOk) return;
  Api().SetStatus(status, code, message != nullptr ? message : "no memory for the reason");
  group->free_message(message);
}

/// Inputs and outputs of an op that has an output of the same shape for each of its inputs.
struct Tensors {
  std::vector<TensorPointer> held;
  std::vector<tfos_exchanged> memory;
  std::vector<std::vector<std::int64_t>> shapes;
  int dtype = 0;
};

/// Those from input `first` on.
Tensors TensorsOf(TF_OpKernelContext* context, int first, TF_Status* status) {
  Tensors tensors;
  for (int index = first; index < Api().NumInputs(context); ++index) {
    TensorPointer input = InputOf(context, index, status);
    if (input == nullptr) return tensors;
    std::vector<std::int64_t> shape = ShapeOf(input.get());
    tensors.dtype = Api().TensorType(input.get());
    const std::size_t bytes = Api().TensorByteSize(input.get());
    TensorPointer output(Api().AllocateOutput(context, index - first, tensors.dtype, shape.data(),
                                              static_cast<int>(shape.size()), bytes, status));
    if (Api().GetCode(status) != kTfOk) return tensors;
    tensors.memory.push_back({.from = Api().TensorData(input.get()),
                              .to = Api().TensorData(output.get()),
                              .bytes = bytes});
    tensors.shapes.push_back(std::move(shape));
    tensors.held.push_back(std::move(input));
    tensors.held.push_back(std::move(output));
  }
  return tensors;
}

void AllReduce(const Kernel& kernel, TF_OpKernelContext* context, TF_Status* status) {
  const auto group = GroupOf(context, status);
  const auto weight = ScalarOf<double>(context, 1, status);
  if (!group || !weight) return;
  const Tensors tensors = TensorsOf(context, 2, status);
  if (Api().GetCode(status) != kTfOk) return;
  const std::string name = NameWith(tensors.shapes, kernel);
  char* message = nullptr;
  double total = 0;
  const std::int32_t code = (*group)->all_reduce(
      (*group)->context, name.c_str(), tensors.dtype, static_cast<std::int32_t>(kernel.wire),
      kernel.average != 0 ? 1 : 0, *weight, tensors.memory.data(),
      static_cast<std::int32_t>(tensors.memory.size()), &total, &message);
  SetFailure(*group, code, message, status);
  if (code != kTfOk) return;
  SetScalar(context, static_cast<int>(tensors.memory.size()), kTfDouble, total, status);
}

void Broadcast(const Kernel& kernel, TF_OpKernelContext* context, TF_Status* status) {
  const auto group = GroupOf(context, status);
  if (!group) return;
  const Tensors tensors = TensorsOf(context, 1, status);
  if (Api().GetCode(status) != kTfOk) return;
  const std::string name = NameWith(tensors.shapes, kernel);
  char* message = nullptr;
  const std::int32_t code = (*group)->broadcast(
      (*group)->context, name.c_str(), static_cast<std::int32_t>(kernel.root),
      tensors.memory.data(), static_cast<std::int32_t>(tensors.memory.size()), &message);
  SetFailure(*group, code, message, status);
}

/// Where an all-gather puts the rows of all nodes.
struct Room {
  std::vector<std::int64_t> shape;  ///< Of this node's tensor.
  int dtype = 0;
  std::uint64_t row = 0;  ///< Bytes.
  TensorPointer tensor;
  TF_Status* status = nullptr;

  void Allocate(std::uint64_t total) {
    // A row's size comes from its shape, as this node may have no rows.
    row = Api().DataTypeSize(dtype);
    for (std::size_t i = 1; i < shape.size(); ++i) {
      if (__builtin_mul_overflow(row, static_cast<std::uint64_t>(shape[i]), &row)) {
        Api().SetStatus(status, kTfInvalidArgument, "a row of this shape is too large to gather");
        return;
      }
    }
    if (row == 0 ? total != 0 : total % row != 0) {
      Api().SetStatus(status, kTfInvalidArgument, "the nodes' rows are of different shapes");
      return;
    }
    shape[0] = row == 0 ? 0 : static_cast<std::int64_t>(total / row);
    tensor.reset(Api().AllocateTensor(dtype, shape.data(), static_cast<int>(shape.size()), total));
    if (tensor == nullptr) {
      Api().SetStatus(status, kTfResourceExhausted, "no memory for the rows of all nodes");
    }
  }
};

std::int32_t AllocateRoom(void* room, std::uint64_t bytes, void** to) {
  Room& wanted = *static_cast<Room*>(room);
  GuardedInto(wanted.status, [&] { wanted.Allocate(bytes); });
  const int code = Api().GetCode(wanted.status);
  if (code == kTfOk) *to = Api().TensorData(wanted.tensor.get());
  return code;
}

void AllGather(const Kernel& kernel, TF_OpKernelContext* context, TF_Status* status) {
  const auto group = GroupOf(context, status);
  if (!group) return;
  const TensorPointer input = InputOf(context, 1, status);
  if (input == nullptr) return;
  Room room{.shape = ShapeOf(input.get()),
            .dtype = Api().TensorType(input.get()),
            .row = 0,
            .tensor = nullptr,
            .status = status};
  if (room.shape.empty()) {
    Api().SetStatus(status, kTfInvalidArgument, "a tensor without rows can't be gathered");
    return;
  }
  // Of a row: members may have different numbers of them.
  const std::vector<std::int64_t> row(room.shape.begin() + 1, room.shape.end());
  const std::string name = NameWith({row}, kernel);
  char* message = nullptr;
  std::uint64_t before = 0;
  const std::int32_t code = (*group)->all_gather(
      (*group)->context, name.c_str(), Api().TensorData(input.get()),
      Api().TensorByteSize(input.get()), &AllocateRoom, &room, &before, &message);
  if (Api().GetCode(status) != kTfOk) {  // Of the room: that says more.
    if (message != nullptr) (*group)->free_message(message);
    return;
  }
  SetFailure(*group, code, message, status);
  if (code != kTfOk) return;
  Api().SetOutput(context, 0, room.tensor.get(), status);
  if (Api().GetCode(status) != kTfOk) return;
  const std::uint64_t first = room.row == 0 ? 0 : before / room.row;
  SetScalar(context, 1, kTfInt64, static_cast<std::int64_t>(first), status);
}

template <void (*kRun)(const Kernel&, TF_OpKernelContext*, TF_Status*)>
void Run(void* kernel, TF_OpKernelContext* context) {
  const StatusPointer status(Api().NewStatus());
  GuardedInto(status.get(),
              [&] { kRun(*static_cast<const Kernel*>(kernel), context, status.get()); });
  if (Api().GetCode(status.get()) != kTfOk) Api().OpKernelContextFailure(context, status.get());
}

/// TensorFlow takes up the ops that are registered while it loads a library.
[[gnu::constructor]] void RegisterWhenLoaded() {
  constexpr const char* kTag = "tag: string";
  constexpr const char* kRoot = "root: int = 0";
  constexpr const char* kAverage = "average: int = 0";
  constexpr const char* kWire = "wire: int = 0";
  RegisterOp({.name = "TfosAllReduce",
              .attributes = {"T: {float, double, int32, int64, half, bfloat16}", "N: int >= 1",
                             kTag, kRoot, kAverage, kWire},
              .inputs = {"group: int64", "weight: double", "tensors: N * T"},
              .outputs = {"reduced: N * T", "total: double"}},
             &Run<&AllReduce>, &Create, &Destroy);
  RegisterOp({.name = "TfosBroadcast",
              .attributes = {"T: type", "N: int >= 1", kTag, kRoot, kAverage, kWire},
              .inputs = {"group: int64", "tensors: N * T"},
              .outputs = {"broadcast: N * T"}},
             &Run<&Broadcast>, &Create, &Destroy);
  RegisterOp({.name = "TfosAllGather",
              .attributes = {"T: type", kTag, kRoot, kAverage, kWire},
              .inputs = {"group: int64", "tensor: T"},
              .outputs = {"gathered: T", "first: int64"}},
             &Run<&AllGather>, &Create, &Destroy);
}

}  // namespace
}  // namespace tfos::tensorflow

std::int64_t tfos_register_tensor_group(const tfos_tensor_group* group) {
  return tfos::tensorflow::Registered(*group, TFOS_TENSOR_GROUP_VERSION);
}

void tfos_unregister_tensor_group(std::int64_t handle) {
  tfos::tensorflow::Registry<tfos_tensor_group>::Process().Remove(handle);
}
