#ifndef TFOS_BASE_LOGGING_H_
#define TFOS_BASE_LOGGING_H_

#include <string_view>
#include <utility>

#include "base/format.h"

namespace tfos {

/// Sets up the process's log: one line per event on standard error, in the form
/// `2026-11-21T10:00:00.123456+01:00 INFO tfos agent cluster=ab12 node=3 host=h: message`.
///
/// `who` names the program part and whose lines they are ("agent cluster=ab12 node=3 host=h").
/// `level` is one of Spark's names (ALL, TRACE, DEBUG, INFO, WARN, ERROR, FATAL, OFF), any case.
/// An unknown one means INFO. Call it once at start, from the main thread.
void SetUpLogging(std::string_view who, std::string_view level);

enum class LogLevel { kDebug, kInfo, kWarning, kError };

/// Whether lines of `level` are written. Threads: any.
bool IsLogged(LogLevel level);

/// Writes one message, without its control characters. Its lines after the first are indented, so
/// that none of another's text looks like one of the log. Threads: any.
void WriteLog(LogLevel level, std::string_view message);

template <typename... T>
void Log(LogLevel level, fmt::format_string<T...> format, T&&... arguments) {
  if (IsLogged(level)) WriteLog(level, fmt::format(format, std::forward<T>(arguments)...));
}

template <typename... T>
void LogDebug(fmt::format_string<T...> format, T&&... arguments) {
  Log(LogLevel::kDebug, format, std::forward<T>(arguments)...);
}

template <typename... T>
void LogInfo(fmt::format_string<T...> format, T&&... arguments) {
  Log(LogLevel::kInfo, format, std::forward<T>(arguments)...);
}

template <typename... T>
void LogWarning(fmt::format_string<T...> format, T&&... arguments) {
  Log(LogLevel::kWarning, format, std::forward<T>(arguments)...);
}

template <typename... T>
void LogError(fmt::format_string<T...> format, T&&... arguments) {
  Log(LogLevel::kError, format, std::forward<T>(arguments)...);
}

}  // namespace tfos

#endif  // TFOS_BASE_LOGGING_H_
