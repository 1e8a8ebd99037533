// Small helpers that build text for messages, and read numbers. Not for hot paths.
#ifndef TRIPONT_CORE_RUNTIME_STRINGS_H_
#define TRIPONT_CORE_RUNTIME_STRINGS_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>

namespace tripont {

// All parts written one after the other, as operator<< writes them. Throws std::bad_alloc where there is no memory, for
// which a stream would leave out a part and say nothing.
template <typename... Parts>
std::string StrCat(const Parts&... parts) {
  std::ostringstream stream;
  stream.exceptions(std::ios_base::badbit);
  (stream << ... << parts);
  return std::move(stream).str();
}

// The elements of `values` separated by `separator`.
template <typename Container>
std::string StrJoin(const Container& values, std::string_view separator) {
  std::ostringstream stream;
  stream.exceptions(std::ios_base::badbit);
  bool first = true;
  for (const auto& value : values) {
    if (!first) stream << separator;
    first = false;
    stream << value;
  }
  return std::move(stream).str();
}

// The whole number that `text` is, with nothing before or behind it.
inline std::optional<int64_t> ToNumber(std::string_view text) {
  int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || read != end) return std::nullopt;
  return number;
}

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_STRINGS_H_
