#include "base/logging.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"

// As Spark writes them.
#define SPDLOG_LEVEL_NAMES \
  { "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF" }
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace tfos {
namespace {

spdlog::level::level_enum LevelFromName(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return std::toupper(c); });
  if (upper == "ALL" || upper == "TRACE") return spdlog::level::trace;
  if (upper == "DEBUG") return spdlog::level::debug;
  if (upper == "WARN" || upper == "WARNING") return spdlog::level::warn;
  if (upper == "ERROR") return spdlog::level::err;
  if (upper == "FATAL") return spdlog::level::critical;
  if (upper == "OFF") return spdlog::level::off;
  return spdlog::level::info;
}

spdlog::level::level_enum Spdlogs(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

/// What the process logs with, and has logged with before. Never destroyed: threads may write while
/// the process ends, when what belongs to the logging library itself is gone.
struct Loggers {
  Loggers() { Use(std::make_unique<spdlog::logger>("", Sink<spdlog::sinks::stdout_sink_mt>())); }

  void Use(std::unique_ptr<spdlog::logger> logger) {
    current.store(logger.get(), std::memory_order_release);
    all.push_back(std::move(logger));
  }

  template <typename T>
  static spdlog::sink_ptr Sink() {
    return std::make_shared<T>();
  }

  std::vector<std::unique_ptr<spdlog::logger>> all;
  std::atomic<spdlog::logger*> current = nullptr;
};

Loggers& TheLoggers() {
  static auto* const loggers = new Loggers;
  return *loggers;
}

spdlog::logger& Current() { return *TheLoggers().current.load(std::memory_order_acquire); }

}  // namespace

void SetUpLogging(std::string_view who, std::string_view level) {
  auto logger =
      std::make_unique<spdlog::logger>("tfos", Loggers::Sink<spdlog::sinks::stderr_sink_mt>());
  std::string escaped;
  for (char c : who) escaped += c == '%' ? std::string("%%") : std::string(1, c);
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %l tfos " + escaped + ": %v");
  logger->set_level(LevelFromName(level));
  logger->flush_on(spdlog::level::trace);
  TheLoggers().Use(std::move(logger));
}

bool IsLogged(LogLevel level) { return Current().should_log(Spdlogs(level)); }

void WriteLog(LogLevel level, std::string_view message) {
  // Most messages need no memory here: some tell that there is none.
  const bool is_plain = std::ranges::none_of(
      message, [](unsigned char c) { return c < ' ' || c == 127 || c == 0xc2; });
  if (is_plain) {
    Current().log(Spdlogs(level), message);
  } else {
    Current().log(Spdlogs(level), PrintableLines(message, "    "));
  }
}

}  // namespace tfos
