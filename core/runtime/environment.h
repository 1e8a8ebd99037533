// The environment of this process, which it changes while libraries are opened that read it.
//
// setenv and getenv of two threads at once are undefined behaviour. The functions here exclude one
// another; they cannot exclude what other libraries of the process read and change meanwhile.
#ifndef TRIPONT_CORE_RUNTIME_ENVIRONMENT_H_
#define TRIPONT_CORE_RUNTIME_ENVIRONMENT_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tripont {

// All are thread-safe against one another.
std::optional<std::string> GetVariable(const std::string& name);
// nullopt unsets it.
void SetVariable(const std::string& name, const std::optional<std::string>& value);
// "NAME=value" of each variable whose "NAME=value" `is_wanted`.
std::vector<std::string> CopyEnvironment(
    const std::function<bool(std::string_view variable)>& is_wanted);

// Around a fork: the child must not find the environment locked by a thread that it does not have.
void LockEnvironmentForFork();
void UnlockEnvironmentAfterFork();

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_ENVIRONMENT_H_
