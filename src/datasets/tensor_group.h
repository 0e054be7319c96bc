#ifndef TFOS_DATASETS_TENSOR_GROUP_H_
#define TFOS_DATASETS_TENSOR_GROUP_H_

#include <cstdint>
#include <memory>
#include <string>

#include "collective/group.h"
#include "node/node_feed.h"
#include "tensorflow/ops/tensor_group_table.h"

namespace tfos::datasets {

/// The nodes that train together, for the ops of src/tensorflow.
///
/// Owner and lifetime: of the node's process; what an op uses stays until its call returns, Close
/// or not. Threads: any. Errors: Status; nothing here throws but std::bad_alloc.
class TensorGroup {
 public:
  /// Waits for all members. Errors: as collective::Group::Join.
  static Result<std::unique_ptr<TensorGroup>> Join(collective::GroupOptions options);
  ~TensorGroup();
  TensorGroup(const TensorGroup&) = delete;
  TensorGroup& operator=(const TensorGroup&) = delete;

  collective::Group& group() const;

  /// While a reader of the feed waits, the group goes on with the others (Group::FollowOthers).
  void FollowOthersWhileWaiting(std::shared_ptr<node::NodeFeed> feed);

  /// Registers the group with the ops library, once, and returns its handle.
  ///   kUnsupported  the library is of another version
  Result<std::int64_t> Register(tfos_register_group_function add,
                                tfos_unregister_group_function remove);

 private:
  struct Shared;

  explicit TensorGroup(Shared* shared) : shared_(shared) {}

  Shared* const shared_;                  ///< Counts its references, of which one is this.
  std::shared_ptr<node::NodeFeed> feed_;  ///< That it follows for; null: none.
  std::int64_t handle_ = 0;
  tfos_unregister_group_function remove_ = nullptr;
};

}  // namespace tfos::datasets

#endif  // TFOS_DATASETS_TENSOR_GROUP_H_
