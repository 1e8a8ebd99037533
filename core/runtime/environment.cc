#include "core/runtime/environment.h"

#include <cstdlib>
#include <mutex>

extern char** environ;

namespace tripont {
namespace {

std::mutex& EnvironmentMutex() {
  static auto* const mutex = new std::mutex;  // as long as the process
  return *mutex;
}

}  // namespace

std::optional<std::string> GetVariable(const std::string& name) {
  const std::lock_guard<std::mutex> lock(EnvironmentMutex());
  const char* const value = std::getenv(name.c_str());
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

void SetVariable(const std::string& name, const std::optional<std::string>& value) {
  const std::lock_guard<std::mutex> lock(EnvironmentMutex());
  if (value.has_value()) {
    setenv(name.c_str(), value->c_str(), /*overwrite=*/1);
  } else {
    unsetenv(name.c_str());
  }
}

std::vector<std::string> CopyEnvironment(
    const std::function<bool(std::string_view variable)>& is_wanted) {
  const std::lock_guard<std::mutex> lock(EnvironmentMutex());
  std::vector<std::string> variables;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (is_wanted(*entry)) variables.emplace_back(*entry);
  }
  return variables;
}

void LockEnvironmentForFork() { EnvironmentMutex().lock(); }
void UnlockEnvironmentAfterFork() { EnvironmentMutex().unlock(); }

}  // namespace tripont
