#include "core/runtime/hosts/text.h"

#include "core/runtime/strings.h"

namespace tripont::hosts {
namespace {

constexpr size_t kMaxReason = 1000;

}  // namespace

std::string Plain(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string Shortened(const std::string& reason) {
  if (reason.size() <= kMaxReason) return reason;
  // Between characters of UTF-8, not within one.
  const auto within = [&](size_t at) { return (static_cast<uint8_t>(reason[at]) & 0xC0) == 0x80; };
  size_t begin = kMaxReason * 2 / 5;
  size_t end = reason.size() - kMaxReason * 3 / 5;
  while (begin > 0 && within(begin)) --begin;
  while (end + 1 < reason.size() && within(end)) ++end;
  return StrCat(reason.substr(0, begin), " ... ", reason.substr(end));
}

}  // namespace tripont::hosts
