// The list of all library calls.
#include "core/runtime/library/registry.h"

namespace tripont {

void RegisterLibraryCalls(LibraryRegistry& /*registry*/) {}

std::vector<std::pair<std::string, std::string>> LibraryVersions() { return {}; }

}  // namespace tripont
