#ifndef TFOS_PYTHON_OBJECTS_EXCLUSIVE_H_
#define TFOS_PYTHON_OBJECTS_EXCLUSIVE_H_

#include <memory>
#include <utility>

#include "base/format.h"
#include "python/objects/errors.h"

namespace tfos::python {

/// Marks an object as in use for a scope and refuses a second caller: BadInputError. The methods of
/// most objects let go of the GIL, so two threads of a program could run in one object otherwise.
///
/// Owner and lifetime: a local; borrows the flag. Threads: any, with the GIL, at begin and end.
class OneCaller {
 public:
  /// `object` is what messages call it.
  OneCaller(bool& running, const char* method, const char* object) : running_(running) {
    if (running_) {
      ThrowStatus(Status(ErrorKind::kBadInput,
                         fmt::format("{}: another thread is using this {}; call it from one thread "
                                     "at a time, or make one for each thread",
                                     method, object)));
    }
    running_ = true;
  }
  ~OneCaller() { running_ = false; }
  OneCaller(const OneCaller&) = delete;
  OneCaller& operator=(const OneCaller&) = delete;

 private:
  bool& running_;
};

/// An object of Python's that serves one call at a time: what is bound instead of a T whose methods
/// let go of the GIL.
///
/// Owner and lifetime: Python's; owns the T. Threads: any, with the GIL.
template <typename T>
class Exclusive {
 public:
  /// The T, for the time of a call.
  class Use {
   public:
    Use(Exclusive& exclusive, const char* method)
        : only_(exclusive.running_, method, exclusive.name_), object_(*exclusive.object_) {}

    T& operator*() const { return object_; }
    T* operator->() const { return &object_; }

   private:
    OneCaller only_;
    T& object_;
  };

  /// `name` is what messages call it; it lasts.
  Exclusive(std::unique_ptr<T> object, const char* name)
      : object_(std::move(object)), name_(name) {}

  /// Errors: throws BadInputError, naming `method`, while another call runs.
  Use Enter(const char* method) { return Use(*this, method); }

 private:
  const std::unique_ptr<T> object_;
  const char* const name_;
  bool running_ = false;
};

}  // namespace tfos::python

#endif  // TFOS_PYTHON_OBJECTS_EXCLUSIVE_H_
