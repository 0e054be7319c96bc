#include "arrow/export.h"

#include <utility>

namespace tfos::arrow {
namespace {

template <typename T>
T* Released(T* exported) {
  for (std::int64_t i = 0; i < exported->n_children; ++i) {
    T* const child = exported->children[i];
    if (child->release != nullptr) child->release(child);
  }
  exported->release = nullptr;
  return exported;
}

struct SchemaOwner {
  std::string name;
  std::string format;
  std::vector<ArrowSchema> children;
  std::vector<ArrowSchema*> pointers;

  static void Release(ArrowSchema* schema) {
    delete static_cast<SchemaOwner*>(Released(schema)->private_data);
  }
};

struct ArrayOwner {
  std::vector<const void*> buffers;
  std::vector<std::shared_ptr<const void>> memory;
  std::vector<ArrowArray> children;
  std::vector<ArrowArray*> pointers;

  static void Release(ArrowArray* array) {
    delete static_cast<ArrayOwner*>(Released(array)->private_data);
  }
};

}  // namespace

ArrowSchema ExportSchema(const Field& field) {
  auto owner = std::make_unique<SchemaOwner>();
  owner->name = field.name;
  owner->format = field.format;
  for (const Field& child : field.children) owner->children.push_back(ExportSchema(child));
  for (ArrowSchema& child : owner->children) owner->pointers.push_back(&child);
  ArrowSchema schema{};
  schema.format = owner->format.c_str();
  schema.name = owner->name.c_str();
  schema.flags = field.nullable ? ARROW_FLAG_NULLABLE : 0;
  schema.n_children = static_cast<std::int64_t>(owner->children.size());
  schema.children = owner->pointers.data();
  schema.release = &SchemaOwner::Release;
  schema.private_data = owner.release();
  return schema;
}

ArrowArray ExportArray(Field field) {
  auto owner = std::make_unique<ArrayOwner>();
  owner->buffers = std::move(field.buffers);
  owner->memory = std::move(field.memory);
  for (Field& child : field.children) owner->children.push_back(ExportArray(std::move(child)));
  for (ArrowArray& child : owner->children) owner->pointers.push_back(&child);
  ArrowArray array{};
  array.length = static_cast<std::int64_t>(field.length);
  array.null_count = static_cast<std::int64_t>(field.nulls);
  array.n_buffers = static_cast<std::int64_t>(owner->buffers.size());
  array.buffers = owner->buffers.data();
  array.n_children = static_cast<std::int64_t>(owner->children.size());
  array.children = owner->pointers.data();
  array.release = &ArrayOwner::Release;
  array.private_data = owner.release();
  return array;
}

}  // namespace tfos::arrow
