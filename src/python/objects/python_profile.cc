#include "python/objects/python_profile.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/profile/stack_profile.h"
#include "base/thread/mutex.h"
#include "base/thread/thread.h"
#include "base/time/deadline.h"
#include "python/objects/python_object.h"

namespace tfos::python {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr milliseconds kInterval(10);
/// A thread that runs Python gives the lock to another one within 5 ms.
constexpr std::chrono::seconds kPatience(2);
/// Places in code that are remembered. With more, all are forgotten.
constexpr std::size_t kMostPlaces = 1u << 16;
constexpr const char* kModule = "tfos.node.profiling";

/// What the thread that samples shares with the one that waits for it.
struct Attempt {
  Mutex mutex;
  CondVar changed;
  bool given_up TFOS_GUARDED_BY(mutex) = false;
  bool done TFOS_GUARDED_BY(mutex) = false;
  Result<std::string> profile TFOS_GUARDED_BY(mutex) = std::string();
};

/// Looks at frames. Threads and lifetime: all with Python's lock.
class Sampler {
 public:
  Sampler()
      : module_(nb::module_::import_(kModule)),
        frames_now_(nb::module_::import_("sys").attr("_current_frames")),
        names_(nb::cast<std::map<std::uint64_t, std::string>>(module_.attr("thread_names")())),
        before_(Numbers()) {
    module_.attr("begin")();
  }

  void Sample(Clock::Duration time) {
    ++builder_.profile().samples;
    const auto us = std::chrono::duration_cast<microseconds>(time).count();
    builder_.profile().elapsed_us += us;
    const nb::object frames = frames_now_();
    PyObject* ident = nullptr;
    PyObject* frame = nullptr;
    Py_ssize_t at = 0;
    while (PyDict_Next(frames.ptr(), &at, &ident, &frame) != 0) {
      AddStack(nb::cast<std::uint64_t>(nb::handle(ident)), nb::borrow(frame), us);
    }
  }

  /// Nobody asks for more, for now.
  void End() { module_.attr("end")(); }

  std::string Finish() {
    Grown after = Numbers();
    End();
    // What a look at the dataset has found comes late, and tells its own time.
    for (const auto& [name, value] : Numbers().second) {
      if (name.starts_with("dataset_")) after.second[name] = value;
    }
    builder_.profile().cpu_seconds = Growth(before_.first, after.first);
    builder_.profile().counters = Growth(before_.second, after.second);
    return builder_.Take().Serialize();
  }

 private:
  using ByName = std::map<std::string, double>;
  using Grown = std::pair<ByName, ByName>;

  struct Place {
    PyObject* code;
    Py_ssize_t instruction;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place& place) const {
      return std::hash<PyObject*>()(place.code) * 31 + static_cast<std::size_t>(place.instruction);
    }
  };

  Grown Numbers() const {
    return {nb::cast<ByName>(module_.attr("cpu_seconds")()),
            nb::cast<ByName>(module_.attr("counters")())};
  }

  static ByName Growth(const ByName& before, const ByName& after) {
    ByName growth;
    for (const auto& [name, value] : after) {
      if (growth.size() == StackProfile::kMostNumbers) break;
      const auto earlier = before.find(name);
      // A thread that has ended takes its time with it.
      const double grown = std::max(0.0, value - (earlier == before.end() ? 0 : earlier->second));
      if (grown > 0) growth[name.substr(0, StackProfile::kLongestText)] = grown;
    }
    return growth;
  }

  void AddStack(std::uint64_t ident, nb::object frame, std::int64_t us) {
    stack_.clear();
    // A deeper stack is cut to its innermost frames.
    while (!frame.is_none() && stack_.size() < StackProfile::kMostDepth) {
      stack_.push_back(FrameOf(frame));
      frame = Get(frame, back_);
    }
    const auto name = names_.find(ident);
    int call = builder_.CallOf(
        -1, builder_.FrameOf(
                {.name = name == names_.end() ? "new threads" : name->second, .file = ""}));
    if (call < 0) return;
    for (auto place = stack_.rbegin(); place != stack_.rend(); ++place) {
      call = builder_.CallOf(call, *place);
    }
    builder_.AddTime(call, us);
  }

  int FrameOf(const nb::object& frame) {
    nb::object code = Get(frame, code_);
    const Place place{.code = code.ptr(),
                      .instruction = nb::cast<Py_ssize_t>(Get(frame, instruction_))};
    if (const auto known = places_.find(place); known != places_.end()) return known->second;
    if (places_.size() >= kMostPlaces) {
      places_.clear();
      codes_.clear();
    }
    const nb::object line = Get(frame, line_);  // None for code that has no line.
    const int number =
        builder_.FrameOf({.name = nb::cast<std::string>(nb::str(Get(code, name_))),
                          .file = nb::cast<std::string>(nb::str(Get(code, file_))),
                          .line = line.is_none() ? 0 : std::max(0, nb::cast<int>(line))});
    places_.emplace(place, number);
    codes_.try_emplace(place.code, std::move(code));
    return number;
  }

  static nb::object Get(const nb::object& object, const nb::str& name) {
    return Checked(PyObject_GetAttr(object.ptr(), name.ptr()));
  }

  const nb::object module_;
  const nb::object frames_now_;
  const std::map<std::uint64_t, std::string> names_;
  const Grown before_;
  const nb::str back_{"f_back"};
  const nb::str code_{"f_code"};
  const nb::str instruction_{"f_lasti"};
  const nb::str line_{"f_lineno"};
  const nb::str name_{"co_qualname"};
  const nb::str file_{"co_filename"};
  StackProfileBuilder builder_;
  std::vector<int> stack_;
  std::unordered_map<Place, int, PlaceHash> places_;
  std::unordered_map<PyObject*, nb::object> codes_;  ///< So that no other one gets its address.
};

/// False when nobody waits for the profile any more.
bool AwaitTick(Attempt& attempt, Clock::TimePoint tick) {
  const Deadline deadline = Deadline::After(tick - Clock::Steady().Now());
  const MutexLock held(attempt.mutex);
  while (!attempt.given_up && !deadline.passed()) {
    attempt.changed.WaitUntil(attempt.mutex, deadline);
  }
  return !attempt.given_up;
}

/// With the lock, which others may have between two samples.
std::string SampleFor(milliseconds time, Attempt& attempt) {
  Sampler sampler;
  Clock::TimePoint last = Clock::Steady().Now();
  const Clock::TimePoint end = last + time;
  while (last < end) {
    bool wanted = false;
    {
      const nb::gil_scoped_release release;
      wanted = AwaitTick(attempt, std::min(last + kInterval, end));
    }
    if (!wanted) {
      sampler.End();
      return {};
    }
    const Clock::TimePoint now = Clock::Steady().Now();
    sampler.Sample(now - last);
    last = now;
  }
  return sampler.Finish();
}

Result<std::string> AskPython(milliseconds time, Attempt& attempt) {
  try {
    return SampleFor(time, attempt);
  } catch (const std::exception& error) {
    return Status(ErrorKind::kUnsupported, std::string("Python can't be sampled: ") + error.what());
  }
}

}  // namespace

std::shared_ptr<PythonProfile> PythonProfile::Create() {
  return std::shared_ptr<PythonProfile>(new PythonProfile());
}

Result<std::string> PythonProfile::Take(milliseconds time) {
  const auto attempt = std::make_shared<Attempt>();
  if (samples_.exchange(true)) {
    return Status(
        ErrorKind::kRetryLater,
        "an earlier profile still waits for Python's lock, which a thread keeps in native "
        "code. `tfos stack` shows where");
  }
  Result<std::thread> started =
      StartThread("tfos-profile", [self = shared_from_this(), attempt, time] {
        Result<std::string> profile = std::string();
        {
          const nb::gil_scoped_acquire lock;
          profile = AskPython(time, *attempt);
        }
        self->samples_ = false;
        const MutexLock held(attempt->mutex);
        attempt->profile = std::move(profile);
        attempt->done = true;
        attempt->changed.NotifyAll();
      });
  if (!started.ok()) {
    samples_ = false;
    return started.status();
  }
  // It may wait for as long as the process lives.
  started->detach();
  const Deadline deadline = Deadline::After(time + kPatience);
  const MutexLock held(attempt->mutex);
  while (!attempt->done && !deadline.passed()) attempt->changed.WaitUntil(attempt->mutex, deadline);
  if (attempt->done) return std::move(attempt->profile);
  attempt->given_up = true;
  attempt->changed.NotifyAll();
  return Status(ErrorKind::kRetryLater,
                "a thread keeps Python's lock in native code, so nothing could be sampled. `tfos "
                "stack` shows where");
}

}  // namespace tfos::python
