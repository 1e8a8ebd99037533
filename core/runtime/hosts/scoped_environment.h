// Environment variables that a library is to see while it is opened or starts.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_SCOPED_ENVIRONMENT_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_SCOPED_ENVIRONMENT_H_

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

namespace tripont::hosts {

// The destructor puts back what was there, so that programs that this process starts see nothing of
// it. The environment belongs to the process: other threads must not change it meanwhile.
class ScopedEnvironment {
 public:
  void Set(const char* name, const std::string& value) {
    Remember(name);
    setenv(name, value.c_str(), 1);
  }
  void SetDefault(const char* name, const std::string& value) {
    if (std::getenv(name) == nullptr) Set(name, value);
  }
  void Unset(const char* name) {
    Remember(name);
    unsetenv(name);
  }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) {
      if (value.has_value()) {
        setenv(name.c_str(), value->c_str(), 1);
      } else {
        unsetenv(name.c_str());
      }
    }
  }

 private:
  void Remember(const char* name) {
    const char* const value = std::getenv(name);
    before_.try_emplace(name, value != nullptr ? std::optional<std::string>(value) : std::nullopt);
  }
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_SCOPED_ENVIRONMENT_H_
