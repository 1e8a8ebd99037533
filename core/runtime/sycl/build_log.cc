#include "core/runtime/sycl/build_log.h"

#include <cstdlib>
#include <iostream>
#include <mutex>
#include <sstream>

namespace tripont::sycl {

std::string BuildLog(const std::function<void()>& failing) {
  static auto* const mutex = new std::mutex;
  const std::lock_guard<std::mutex> lock(*mutex);
  constexpr char kVerbosity[] = "DPCTL_VERBOSITY";
  const char* const old = std::getenv(kVerbosity);
  const std::string saved = old != nullptr ? old : "";
  setenv(kVerbosity, "error", /*overwrite=*/1);
  std::ostringstream text;
  std::streambuf* const buffer = std::cerr.rdbuf(text.rdbuf());
  failing();
  std::cerr.rdbuf(buffer);
  old != nullptr ? setenv(kVerbosity, saved.c_str(), 1) : unsetenv(kVerbosity);
  return std::move(text).str();
}

}  // namespace tripont::sycl
