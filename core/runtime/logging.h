// Log lines on stderr: "tripont: warning: text". Thread-safe; one write a line, nothing is
// buffered.
#ifndef TRIPONT_CORE_RUNTIME_LOGGING_H_
#define TRIPONT_CORE_RUNTIME_LOGGING_H_

#include <string>
#include <string_view>

#include "core/runtime/export.h"
#include "core/runtime/strings.h"

namespace tripont {

enum class LogLevel : int { kError = 0, kWarning = 1, kInfo = 2, kDebug = 3 };

TRIPONT_EXPORT void SetLogLevel(int level);
TRIPONT_EXPORT bool LogEnabled(LogLevel level);
TRIPONT_EXPORT void LogLine(LogLevel level, std::string_view text);
// A line of two texts if the level is on. Allocates nothing, for places that must not fail.
TRIPONT_EXPORT void LogText(LogLevel level, std::string_view text, std::string_view more) noexcept;

}  // namespace tripont

// TRIPONT_LOG(kWarning, "the cache folder ", path, " is read-only"): the parts are evaluated only
// if the level is on.
#define TRIPONT_LOG(level, ...)                                                       \
  do {                                                                                \
    if (::tripont::LogEnabled(::tripont::LogLevel::level)) {                          \
      ::tripont::LogLine(::tripont::LogLevel::level, ::tripont::StrCat(__VA_ARGS__)); \
    }                                                                                 \
  } while (false)

#endif  // TRIPONT_CORE_RUNTIME_LOGGING_H_
