#ifndef TFOS_TENSORFLOW_OPS_BATCH_SOURCE_TABLE_H_
#define TFOS_TENSORFLOW_OPS_BATCH_SOURCE_TABLE_H_

#include <stdint.h>

/* Where the ops of batch_ops.cc get their batches from. This is the border between
 * the extension, which has the feed, and the ops library, which TensorFlow loads: two shared
 * objects that may be built by different compilers, so it is plain C.
 *
 * Owner and lifetime: said at each member. Threads: every function may be called from any, several
 * at a time. Errors: codes; nothing is thrown across. Units: bytes, rows. */

#ifdef __cplusplus
extern "C" {
#endif

#define TFOS_BATCH_SOURCE_VERSION 3
#define TFOS_SHOWN __attribute__((visibility("default")))

typedef struct tfos_string {
  const char* data;
  uint64_t bytes;
} tfos_string;

/* One tensor of a batch. */
typedef struct tfos_tensor {
  int32_t dtype; /* As in docs/formats/chunk.md; 0: strings. */
  int32_t rank;
  const int64_t* dims; /* `rank` of them; the batch's. */
  const void* data;    /* A multiple of 64, unless empty. */
  uint64_t bytes;
  const tfos_string* strings; /* Instead of data: as many as dims say; they are the batch's. */
  /* Keeps `data`. A holder that wants it longer sets `owner` to null and calls
   * release(owner) in the end. */
  void* owner;
  void (*release)(void* owner);
} tfos_tensor;

/* What `next` gives; the caller returns it through release_batch, whatever the code. */
typedef struct tfos_batch {
  int32_t code; /* A TF_Code: 0 a batch, 11 (out of range) the end of the pass, or an error. */
  const char* message; /* If not 0. */
  int32_t tensors;
  tfos_tensor* tensor;
  void* storage;
} tfos_batch;

typedef struct tfos_batch_source {
  uint32_t version; /* TFOS_BATCH_SOURCE_VERSION */
  void* context;    /* Counted by the two functions below; its registrar keeps its own count. */
  void (*retain)(void* context);
  void (*release)(void* context);
  /* A new pass over the dataset begins. */
  void (*begin)(void* context);
  /* Waits for a short while. Returns 1 when `next` would still wait, else 0. */
  int32_t (*await)(void* context);
  /* Waits for the next batch and fills all members of `batch`. */
  void (*next)(void* context, tfos_batch* batch);
  void (*release_batch)(tfos_batch* batch);
  /* Null where all passes share one position, as those over a feed. Else every pass has a source of
   * its own: fills `pass`, whose context the caller releases, and returns 1; or 0: no memory. Of
   * such a source this is all that is called; of a pass, `await`, `next` and `release_batch`. */
  int32_t (*open)(void* context, struct tfos_batch_source* pass);
} tfos_batch_source;

/* The functions that the ops library shows. */

/* Returns the handle for the ops, never 0; or 0 for another version than this library's.
 * Retains the context. */
TFOS_SHOWN int64_t tfos_register_batch_source(const tfos_batch_source* source);

/* No op finds it any more. The context is released, at once or when the last op has returned.
 * Nothing happens for a handle that is not registered. */
TFOS_SHOWN void tfos_unregister_batch_source(int64_t handle);

/* Null, or why the op could not be registered with TensorFlow when the library was loaded. */
TFOS_SHOWN const char* tfos_ops_error(void);

typedef int64_t (*tfos_register_function)(const tfos_batch_source* source);
typedef void (*tfos_unregister_function)(int64_t handle);

#ifdef __cplusplus
}
#endif

#endif /* TFOS_TENSORFLOW_OPS_BATCH_SOURCE_TABLE_H_ */
