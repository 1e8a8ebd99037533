// Environment variables that a library is to see while it is opened or starts.
#ifndef TRIPONT_CORE_RUNTIME_HOSTS_SCOPED_ENVIRONMENT_H_
#define TRIPONT_CORE_RUNTIME_HOSTS_SCOPED_ENVIRONMENT_H_

#include <map>
#include <optional>
#include <string>

#include "core/runtime/environment.h"

namespace tripont::hosts {

// The destructor puts back what was there, so that programs that this process starts see nothing of
// it. The environment belongs to the process: other threads see what is set, and other libraries
// must not change it meanwhile.
class ScopedEnvironment {
 public:
  void Set(const std::string& name, const std::string& value) { Change(name, value); }
  void SetDefault(const std::string& name, const std::string& value) {
    if (!GetVariable(name).has_value()) Change(name, value);
  }
  void Unset(const std::string& name) { Change(name, std::nullopt); }
  ~ScopedEnvironment() {
    for (const auto& [name, value] : before_) SetVariable(name, value);
  }

 private:
  void Change(const std::string& name, const std::optional<std::string>& value) {
    before_.try_emplace(name, GetVariable(name));
    SetVariable(name, value);
  }
  std::map<std::string, std::optional<std::string>> before_;
};

}  // namespace tripont::hosts

#endif  // TRIPONT_CORE_RUNTIME_HOSTS_SCOPED_ENVIRONMENT_H_
