#ifndef TFOS_BASE_PROFILE_STACK_PROFILE_H_
#define TFOS_BASE_PROFILE_STACK_PROFILE_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tfos/status.h"

namespace tfos {

/// Where the threads of a process were for some time, as a tree of their calls. It holds names of
/// functions, files and threads, and nothing of what functions hold.
///
/// Owner and lifetime: a value. Threads: plain data. Units: as the names say.
/// Errors: bad input, naming the field, for anything but a profile within its bounds.
struct StackProfile {
  static constexpr std::size_t kMostFrames = 2048;
  static constexpr std::size_t kMostCalls = 16'384;
  static constexpr int kMostDepth = 500;                     ///< Of calls below a thread.
  static constexpr std::size_t kLongestText = 256;           ///< Of a name or a file.
  static constexpr std::size_t kMostNumbers = 512;           ///< Of each of the maps.
  static constexpr std::size_t kMostBytes = 3u << 19;        ///< As text, on the way.
  static constexpr std::int64_t kLongestUs = 3'600'000'000;  ///< An hour.

  /// A line of a function; of a thread its name, without a file.
  struct Frame {
    std::string name;
    std::string file;
    int line = 0;
    auto operator<=>(const Frame&) const = default;
  };
  /// A frame below the one that called it. The outermost one of each thread is the thread.
  struct Call {
    int parent = -1;  ///< Stands before it; -1: a thread.
    int frame = 0;
    std::int64_t own_us = 0;  ///< Without what it called.
  };

  std::int64_t elapsed_us = 0;
  std::int64_t samples = 0;  ///< Of each thread.
  std::vector<Frame> frames;
  std::vector<Call> calls;
  std::map<std::string, double> cpu_seconds;  ///< By name of thread, native ones too.
  std::map<std::string, double> counters;     ///< What the node's counters grew by.

  static Result<StackProfile> Parse(std::string_view text);
  std::string Serialize() const;
};

/// Makes a profile of samples, or of several profiles.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none. If a frame or call is one
/// too many, its time counts for the one that called it.
class StackProfileBuilder {
 public:
  explicit StackProfileBuilder(std::size_t most_frames = StackProfile::kMostFrames,
                               std::size_t most_calls = StackProfile::kMostCalls)
      : most_frames_(most_frames), most_calls_(most_calls) {}

  /// The number of a frame, whose texts are cut to their longest; -1: it is one too many.
  int FrameOf(StackProfile::Frame frame);
  /// The number of a call below `parent`; `parent` if it is one too many. -1 as `parent`: a thread.
  int CallOf(int parent, int frame);
  /// -1 as `call` is passed over.
  void AddTime(int call, std::int64_t us);
  /// What another one has is added to what there is.
  void Merge(const StackProfile& other);

  StackProfile& profile() { return profile_; }
  StackProfile Take() { return std::move(profile_); }

 private:
  std::size_t most_frames_;
  std::size_t most_calls_;
  StackProfile profile_;
  std::map<StackProfile::Frame, int> frames_;
  std::map<std::pair<int, int>, int> calls_;  ///< By parent and frame.
};

}  // namespace tfos

#endif  // TFOS_BASE_PROFILE_STACK_PROFILE_H_
