// Small helpers that build text for messages. Not for hot paths.
#ifndef TRIPONT_CORE_RUNTIME_STRINGS_H_
#define TRIPONT_CORE_RUNTIME_STRINGS_H_

#include <sstream>
#include <string>
#include <string_view>

namespace tripont {

// All parts written one after the other, as operator<< writes them.
template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::ostringstream stream;
  (stream << ... << parts);
  return std::move(stream).str();
}

// The elements of `values` separated by `separator`.
template <typename Container>
std::string StrJoin(const Container& values, std::string_view separator) {
  std::ostringstream stream;
  bool first = true;
  for (const auto& value : values) {
    if (!first) stream << separator;
    first = false;
    stream << value;
  }
  return std::move(stream).str();
}

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_STRINGS_H_
