#ifndef TFOS_ARROW_C_DATA_H_
#define TFOS_ARROW_C_DATA_H_

#include <cstdint>

// The two structs of the Arrow C data interface, a stable ABI through which libraries hand columns
// to each other without linking each other. Copied from its specification, Apache Arrow,
// https://arrow.apache.org/docs/format/CDataInterface.html, guard included.
//
// Owner and lifetime: the holder of a struct whose `release` is not null; `release` frees all of
// it, children included. Threads: readable from several. Nothing in here says how long a buffer is.

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4

extern "C" {

struct ArrowSchema {
  // Array type description
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;

  // Release callback
  void (*release)(struct ArrowSchema*);
  // Opaque producer-specific data
  void* private_data;
};

struct ArrowArray {
  // Array data description
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;

  // Release callback
  void (*release)(struct ArrowArray*);
  // Opaque producer-specific data
  void* private_data;
};

}  // extern "C"

#endif  // ARROW_C_DATA_INTERFACE

#endif  // TFOS_ARROW_C_DATA_H_
