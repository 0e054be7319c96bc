#ifndef TFOS_BASE_LOGGING_H_
#define TFOS_BASE_LOGGING_H_

#include <string>
#include <string_view>

#include <spdlog/spdlog.h>

namespace tfos {

/// Sets up the process's log: one line per event on standard error, in the form
/// `2026-11-21T10:00:00.123456 INFO tfos agent cluster=ab12 node=3 host=h: message`.
///
/// `who` names the program part and whose lines they are ("agent cluster=ab12 node=3 host=h").
/// `level` is one of Spark's names (ALL, TRACE, DEBUG, INFO, WARN, ERROR, FATAL, OFF), any case.
/// An unknown one means INFO. Call it once at start, from the main thread.
///
/// Log with `spdlog::info(...)` and its siblings, which are safe on any thread.
void SetUpLogging(std::string_view who, std::string_view level);

}  // namespace tfos

#endif  // TFOS_BASE_LOGGING_H_
