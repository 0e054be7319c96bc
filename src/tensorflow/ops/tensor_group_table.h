#ifndef TFOS_TENSORFLOW_OPS_TENSOR_GROUP_TABLE_H_
#define TFOS_TENSORFLOW_OPS_TENSOR_GROUP_TABLE_H_

#include <stdint.h>

/* Through what the ops of collective_ops.cc reach the other nodes: the border between the
 * extension, which has the group, and the ops library, which TensorFlow loads. Plain C, as
 * batch_source.h, and with the same rules for owners, threads and errors. */

#ifdef __cplusplus
extern "C" {
#endif

#define TFOS_TENSOR_GROUP_VERSION 4
#ifndef TFOS_SHOWN
#define TFOS_SHOWN __attribute__((visibility("default")))
#endif

/* The memory of one tensor: what this node has, and where the result goes. */
typedef struct tfos_exchanged {
  const void* from;
  void* to;
  uint64_t bytes;
} tfos_exchanged;

/* Makes room for so many bytes, in place of what an earlier call for the same `room` made, and puts
 * its address into *to. Returns a TF_Code. */
typedef int32_t (*tfos_allocate_function)(void* room, uint64_t bytes, void** to);

typedef struct tfos_tensor_group {
  uint32_t version; /* TFOS_TENSOR_GROUP_VERSION */
  void* context;    /* Counted by the two functions below. */
  void (*retain)(void* context);
  void (*release)(void* context);

  /* The functions below wait for the other nodes, which must call them too, in the same
   * order. They return a TF_Code; if it is not 0, *message says why, and goes back through
   * free_message. */

  /* The sum of everybody's tensors, each multiplied by its node's `weight` first if `average` is
   * set; the sum is divided by that of the weights then, which *total becomes, or 0. `dtype`: a
   * TF_DataType, and so is `wire`, which TF_FLOAT is rounded to between hosts; 0: it is not. */
  int32_t (*all_reduce)(void* context, const char* name, int32_t dtype, int32_t wire,
                        int32_t average, double weight, const tfos_exchanged* tensors,
                        int32_t count, double* total, char** message);
  /* The tensors of member `root`. */
  int32_t (*broadcast)(void* context, const char* name, int32_t root, const tfos_exchanged* tensors,
                       int32_t count, char** message);
  /* Everybody's bytes behind each other, by member, where `allocate` says; this node's begin at
   * *before. */
  int32_t (*all_gather)(void* context, const char* name, const void* from, uint64_t bytes,
                        tfos_allocate_function allocate, void* room, uint64_t* before,
                        char** message);
  void (*free_message)(char* message);
} tfos_tensor_group;

/* The functions that the ops library shows. */

/* Returns the handle for the ops, never 0; or 0 for another version than this library's. Retains
 * the context. */
TFOS_SHOWN int64_t tfos_register_tensor_group(const tfos_tensor_group* group);

/* No op finds it any more. The context is released when the last op has returned. */
TFOS_SHOWN void tfos_unregister_tensor_group(int64_t handle);

typedef int64_t (*tfos_register_group_function)(const tfos_tensor_group* group);
typedef void (*tfos_unregister_group_function)(int64_t handle);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_TENSORFLOW_OPS_TENSOR_GROUP_TABLE_H_ */
