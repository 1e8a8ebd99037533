#include "core/runtime/callback_names.h"

#include <algorithm>
#include <charconv>

#include "core/runtime/artifact.h"

namespace tripont {
namespace {

constexpr std::string_view kHexadecimal = "0123456789abcdef";

// The position of the digits of the first name that begins at `from` or later; npos if there is
// none.
size_t FindDigits(std::string_view bytes, size_t from) {
  while ((from = bytes.find(kCallbackName, from)) != std::string_view::npos) {
    from += kCallbackName.size();
    const std::string_view digits = bytes.substr(from, kCallbackDigits);
    if (digits.size() == kCallbackDigits &&
        digits.find_first_not_of(kHexadecimal) == std::string_view::npos) {
      return from;
    }
  }
  return std::string_view::npos;
}

std::string Placeholder(size_t index) {
  std::string digits(kCallbackDigits, '0');
  for (size_t i = kCallbackDigits; index > 0; index /= 16) digits[--i] = kHexadecimal[index % 16];
  return digits;
}

}  // namespace

CallbackNames::CallbackNames(std::string_view program) : program_(program) {
  for (size_t at = 0; (at = FindDigits(program, at)) != std::string_view::npos;) {
    if (masked_.empty()) masked_ = program;
    const std::string_view digits = program.substr(at, kCallbackDigits);
    auto known = std::find(names_.begin(), names_.end(), digits);
    if (known == names_.end()) known = names_.emplace(known, digits);
    masked_.replace(at, kCallbackDigits, Placeholder(static_cast<size_t>(known - names_.begin())));
    at += kCallbackDigits;
  }
  if (!names_.empty()) program_ = masked_;
}

void CallbackNames::PutBack(std::string& artifact) const {
  if (names_.empty()) return;
  for (size_t at = 0; (at = FindDigits(artifact, at)) != std::string::npos; at += kCallbackDigits) {
    size_t index = 0;
    std::from_chars(artifact.data() + at, artifact.data() + at + kCallbackDigits, index, 16);
    if (index < names_.size()) artifact.replace(at, kCallbackDigits, names_[index]);
  }
  SealArtifact(artifact);
}

}  // namespace tripont
