#ifndef TFOS_STATUS_H_
#define TFOS_STATUS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace tfos {

/// What the caller should do about a failure; not where it came from.
///
/// The numbers are part of protocols (docs/formats): a new kind takes the next one.
enum class ErrorKind : std::uint8_t {
  kRetryLater = 0,   ///< Passing condition or missed deadline: the same call may succeed later.
  kReconnect = 1,    ///< The peer or process behind the object is gone: get a new one.
  kUnsupported = 2,  ///< This build, host or version cannot do it: choose another way.
  kSuperseded = 3,   ///< Another attempt has taken over: end, nothing is lost.
  kBadInput = 4,     ///< The caller's data or settings are wrong: correct them.
  kBug = 5,          ///< An invariant of tfos is broken: report it.
  kNoResources =
      6,  ///< Memory, descriptors, threads or disk are used up: free some or ask for less.
  kInterrupted = 7,  ///< The user or Spark ended the wait: stop what is being done.
};

/// Lower-case name of `kind` as it appears in messages, for example "bad input".
std::string_view ErrorKindName(ErrorKind kind);

/// The outcome of an operation: success, or a failure with its chain of causes.
///
/// Owner and lifetime: a value; copies share one immutable record, so passing it around is cheap.
/// Threads: safe to read from several threads; assign from one.
/// Errors: never throws except `std::bad_alloc` while a failure is being built.
///
/// The first failure wins: code that is already failing adds context with `Annotate` and never
/// replaces what it got.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorKind kind, std::string message,
         std::source_location where = std::source_location::current());

  static Status Ok() { return {}; }
  /// A failure whose root is the operating system's error `error` (an errno value).
  static Status FromErrno(int error, std::string_view doing,
                          std::source_location where = std::source_location::current());

  bool ok() const { return rep_ == nullptr; }

  // The accessors below need `!ok()`.
  ErrorKind kind() const;
  /// The message of this link alone.
  const std::string& message() const;
  /// The operating-system error at the root of the chain; zero when there is none.
  std::error_code code() const;
  const std::source_location& where() const;
  /// The next link towards the root; null at the root.
  const Status* cause() const;

  /// This failure as the cause of a new one that says what was being done. OK stays OK.
  Status Annotate(std::string doing,
                  std::source_location where = std::source_location::current()) const;

  /// For users: the whole chain, outermost first, joined with ": ". "ok" for success.
  std::string ToString() const;
  /// For logs: ToString with kind, error code and source location of every link.
  std::string DebugString() const;

 private:
  struct Rep;
  std::shared_ptr<const Rep> rep_;
};

/// Either a `T` or the Status that says why there is none.
///
/// Owner and lifetime: owns its value. Threads: as safe as `T`. `value()` of a failed Result is a
/// bug of the caller and aborts.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    if (status_.ok()) {
      status_ = Status(ErrorKind::kBug, "Result built from an OK status without a value");
    }
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const& { return status_; }
  Status status() && { return std::move(status_); }

  T& value() & { return value_.value(); }
  const T& value() const& { return value_.value(); }
  T&& value() && { return std::move(value_).value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace tfos

#define TFOS_CONCAT_INNER(a, b) a##b
#define TFOS_CONCAT(a, b) TFOS_CONCAT_INNER(a, b)

/// Returns from the enclosing function when `expr` (a Status) failed.
#define TFOS_RETURN_IF_ERROR(expr)                                  \
  do {                                                              \
    if (::tfos::Status tfos_status_ = (expr); !tfos_status_.ok()) { \
      return tfos_status_;                                          \
    }                                                               \
  } while (false)

/// Evaluates `expr` (a Result) and assigns its value to `lhs`, or returns its Status.
#define TFOS_ASSIGN_OR_RETURN(lhs, expr) \
  TFOS_ASSIGN_OR_RETURN_INNER(TFOS_CONCAT(tfos_result_, __LINE__), lhs, expr)
#define TFOS_ASSIGN_OR_RETURN_INNER(result, lhs, expr) \
  auto result = (expr);                                \
  if (!result.ok()) return std::move(result).status(); \
  lhs = std::move(result).value()

#endif  // TFOS_STATUS_H_
