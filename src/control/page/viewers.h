#ifndef TFOS_CONTROL_PAGE_VIEWERS_H_
#define TFOS_CONTROL_PAGE_VIEWERS_H_

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>

#include "base/time/deadline.h"

namespace tfos::control {

/// Which browsers have the page of a cluster open, and whether they have its last state. A page
/// asks for status and history again and again, each time with a name that it has made up for
/// itself.
///
/// Owner and lifetime: a value. Threads: one at a time. Errors: none; of more than kMost pages, the
/// others are not known.
class Viewers {
 public:
  /// What a page needs to show a state.
  enum class Part { kStatus, kHistory };
  /// An answer that is under way.
  struct Look {
    std::string page;
    Part part = Part::kStatus;
    bool of_end = false;
  };

  /// A page that is so late is closed, or in the background.
  static constexpr std::chrono::seconds kLate{3};
  static constexpr std::size_t kMost = 256;
  static constexpr std::size_t kMostNameBytes = 32;

  /// Whether `name` has 1 to kMostNameBytes letters and digits.
  static bool IsName(std::string_view name);
  /// The value of `page` in a query; empty if there is none, or none that is a name.
  static std::string_view NameIn(std::string_view query);

  /// A page asks: what it is answered is the state of now. Then it asks again after `interval`.
  Look Begin(std::string_view page, Part part, Clock::Duration interval, Clock::TimePoint now);
  /// The answer was sent.
  void End(const Look& look);

  /// The state changes no more.
  void BeginEnd();
  /// No page that is still awaited is without the last state.
  bool AllHaveTheEnd(Clock::TimePoint now) const;
  /// For how long from now at most a page without the last state is awaited.
  Clock::Duration LongestWait(Clock::TimePoint now) const;

 private:
  struct Viewer {
    Clock::TimePoint awaited_until;
    bool has_status = false;  // of the end
    bool has_history = false;

    bool HasTheEnd() const { return has_status && has_history; }
  };

  std::map<std::string, Viewer, std::less<>> viewers_;
  bool ends_ = false;
};

}  // namespace tfos::control

#endif  // TFOS_CONTROL_PAGE_VIEWERS_H_
