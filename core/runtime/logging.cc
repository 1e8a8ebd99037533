#include "core/runtime/logging.h"

#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <iterator>

namespace tripont {
namespace {

std::atomic<int> log_level{static_cast<int>(LogLevel::kWarning)};

void Write(LogLevel level, std::string_view text, std::string_view more) noexcept {
  constexpr std::string_view kNames[] = {"error", "warning", "info", "debug"};
  const std::string_view parts[] = {"tripont: ", kNames[static_cast<int>(level)], ": ", text, more,
                                    "\n"};
  iovec pieces[std::size(parts)];
  for (size_t i = 0; i < std::size(parts); ++i)
    pieces[i] = {const_cast<char*>(parts[i].data()), parts[i].size()};
  [[maybe_unused]] const ssize_t written = writev(STDERR_FILENO, pieces, std::size(pieces));
}

}  // namespace

void SetLogLevel(int level) { log_level.store(level, std::memory_order_relaxed); }

bool LogEnabled(LogLevel level) {
  return static_cast<int>(level) <= log_level.load(std::memory_order_relaxed);
}

// Straight to the descriptor: works in a signal's or fork's aftermath, and a line stays in one
// piece.
void LogLine(LogLevel level, std::string_view text) { Write(level, text, ""); }

void LogText(LogLevel level, std::string_view text, std::string_view more) noexcept {
  if (LogEnabled(level)) Write(level, text, more);
}

}  // namespace tripont
