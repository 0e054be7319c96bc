#ifndef TFOS_TENSORFLOW_SAVED_MODEL_H_
#define TFOS_TENSORFLOW_SAVED_MODEL_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensorflow/session_api.h"
#include "tfos/status.h"

namespace tfos::tensorflow {

struct DeleteSessionTensor {
  const SessionApi* api = nullptr;
  void operator()(TF_Tensor* tensor) const { api->DeleteTensor(tensor); }
};
/// A tensor that belongs to nobody else. Its memory may be shared with those of TensorFlow.
using SessionTensor = std::unique_ptr<TF_Tensor, DeleteSessionTensor>;

struct SavedModelOptions {
  /// Whatever TensorFlow can read, hdfs:// included once its plugin is registered.
  std::string directory;
  /// The tags of the graph in it.
  std::vector<std::string> tags;
  /// Files with ops of the model's own. The process has them from then on.
  std::vector<std::string> op_libraries = {};
  /// That compute; 0: one for each core of the host.
  int threads = 0;
};

/// A SavedModel with a session that runs it. On GPUs it takes memory as it needs it.
///
/// Owner and lifetime: owns the session; tensors it has given may outlive it. Borrows `api`.
/// Threads: `Run` may be called from several at a time.
/// Errors: those of TensorFlow, kBadInput where it blames arguments or the model.
class SavedModel {
 public:
  /// Loads graph and variables and runs the initialisation.
  static Result<std::unique_ptr<SavedModel>> Load(const SessionApi& api,
                                                  const SavedModelOptions& options);
  ~SavedModel();
  SavedModel(const SavedModel&) = delete;
  SavedModel& operator=(const SavedModel&) = delete;

  const SessionApi& api() const { return api_; }

  /// The end of an edge by its name in a signature, such as "serving_default_x:0". kBadInput when
  /// the graph has none.
  Result<TF_Output> Find(const std::string& name) const;

  /// Computes `wanted` from `inputs`, which go to `places`.
  Result<std::vector<SessionTensor>> Run(std::span<const TF_Output> places,
                                         std::span<const SessionTensor> inputs,
                                         std::span<const TF_Output> wanted) const;

 private:
  explicit SavedModel(const SessionApi& api) : api_(api) {}

  const SessionApi& api_;
  TF_Graph* graph_ = nullptr;
  TF_Session* session_ = nullptr;
  TF_Buffer* run_options_ = nullptr;  ///< May stay null: TensorFlow's defaults.
};

}  // namespace tfos::tensorflow

#endif  // TFOS_TENSORFLOW_SAVED_MODEL_H_
