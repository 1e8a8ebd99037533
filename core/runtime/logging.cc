#include "core/runtime/logging.h"

#include <unistd.h>

#include <atomic>

namespace tripont {
namespace {

std::atomic<int> log_level{static_cast<int>(LogLevel::kWarning)};

}  // namespace

void SetLogLevel(int level) { log_level.store(level, std::memory_order_relaxed); }

bool LogEnabled(LogLevel level) {
  return static_cast<int>(level) <= log_level.load(std::memory_order_relaxed);
}

void LogLine(LogLevel level, std::string_view text) {
  constexpr std::string_view kNames[] = {"error", "warning", "info", "debug"};
  const std::string line = StrCat("tripont: ", kNames[static_cast<int>(level)], ": ", text, "\n");
  // Straight to the descriptor: works in a signal's or fork's aftermath, and a line stays in one
  // piece.
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace tripont
