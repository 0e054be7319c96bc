#ifndef TFOS_PYTHON_OBJECTS_ARROW_CAPSULES_H_
#define TFOS_PYTHON_OBJECTS_ARROW_CAPSULES_H_

#include <memory>
#include <utility>

#include "arrow/c_data.h"
#include "arrow/export.h"
#include "python/objects/errors.h"
#include "python/objects/python_object.h"

namespace tfos::python {

// The Arrow PyCapsule interface, through which pyarrow and others hand columns over. All of it
// needs the GIL.

/// What an object exports: borrowed structs, which live as long as this.
class ArrowImport {
 public:
  /// A record batch. Throws BadInputError for an object that exports none.
  static ArrowImport Batch(nb::handle object) {
    const nb::object capsules = Export(
        object, "__arrow_c_array__",
        "this is not a record batch of pyarrow 14 or newer, or of another library that has the "
        "method __arrow_c_array__");
    ArrowImport batch;
    batch.schema_ = capsules[0];
    batch.array_ = capsules[1];
    return batch;
  }

  /// A schema, without values. Throws BadInputError for an object that exports none.
  static ArrowImport Schema(nb::handle object) {
    ArrowImport schema;
    schema.schema_ =
        Export(object, "__arrow_c_schema__",
               "this is not a schema of pyarrow 14 or newer, or of another library that "
               "has the method __arrow_c_schema__");
    return schema;
  }

  const ArrowSchema& schema() const { return Get<ArrowSchema>(schema_, "arrow_schema"); }
  /// Takes the values over: they are released, in any thread, when nobody has them any more.
  std::shared_ptr<const ArrowArray> TakeArray() {
    auto* const given = const_cast<ArrowArray*>(&array());
    const auto release = [](ArrowArray* taken) {
      if (taken->release != nullptr) taken->release(taken);
      delete taken;
    };
    std::shared_ptr<ArrowArray> taken(new ArrowArray{}, release);
    std::swap(*taken, *given);  // A capsule whose array has no release is an empty one.
    return taken;
  }
  const ArrowArray& array() const { return Get<ArrowArray>(array_, "arrow_array"); }

 private:
  static nb::object Export(nb::handle object, const char* method, const char* otherwise) {
    if (!nb::hasattr(object, method)) ThrowStatus(Status(ErrorKind::kBadInput, otherwise));
    return object.attr(method)();
  }

  template <typename T>
  static const T& Get(const nb::object& capsule, const char* name) {
    const void* pointer = PyCapsule_GetPointer(capsule.ptr(), name);
    if (pointer == nullptr) throw nb::python_error();
    return *static_cast<const T*>(pointer);
  }

  nb::object schema_;
  nb::object array_;
};

/// A struct of Arrow in a capsule, which releases it unless a consumer has taken it over.
template <typename T>
nb::object ArrowCapsule(std::unique_ptr<T> exported, const char* name) {
  const auto release = [](PyObject* capsule) {
    auto* const held = static_cast<T*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    if (held->release != nullptr) held->release(held);
    delete held;
  };
  PyObject* const capsule = PyCapsule_New(exported.get(), name, release);
  if (capsule == nullptr) throw nb::python_error();
  exported.release();  // The capsule's now.
  return nb::steal(capsule);
}

/// The two capsules of a record batch. They are made before `fill(schema, array)` fills them, so
/// that whatever fails releases what is there.
template <typename Fill>
nb::tuple ArrowArrayCapsules(Fill&& fill) {
  auto* const schema = new ArrowSchema{};
  const nb::object schema_capsule =
      ArrowCapsule(std::unique_ptr<ArrowSchema>(schema), "arrow_schema");
  auto* const array = new ArrowArray{};
  const nb::object array_capsule = ArrowCapsule(std::unique_ptr<ArrowArray>(array), "arrow_array");
  fill(*schema, *array);
  return nb::make_tuple(schema_capsule, array_capsule);
}

/// A record batch or array on its way to another library, which may take it once.
class ArrowBatch {
 public:
  template <typename Fill>
  explicit ArrowBatch(Fill&& fill) : capsules_(ArrowArrayCapsules(std::forward<Fill>(fill))) {}

  nb::tuple capsules() const { return capsules_; }

 private:
  nb::tuple capsules_;
};

/// A schema on its way to another library.
class ArrowType {
 public:
  explicit ArrowType(arrow::Field type) : type_(std::move(type)) {}

  nb::object Capsule() const {
    return ArrowCapsule(std::make_unique<ArrowSchema>(arrow::ExportSchema(type_)), "arrow_schema");
  }

 private:
  arrow::Field type_;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_OBJECTS_ARROW_CAPSULES_H_
