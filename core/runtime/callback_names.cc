#include "core/runtime/callback_names.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <set>

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

std::string Digits(uint64_t number) {
  std::string digits(kCallbackDigits, '0');
  for (size_t i = kCallbackDigits; number > 0; number /= 16)
    digits[--i] = kHexadecimal[number % 16];
  return digits;
}

// What core/bindings/callbacks.cc has told, and the lock for it.
struct Numbers {
  std::mutex mutex;
  std::set<std::string, std::less<>> digits;
};

Numbers& AllNumbers() {
  static auto* const numbers = new Numbers;  // never destroyed: threads may outlive main()
  return *numbers;
}

}  // namespace

void AddCallbackNumber(uint64_t number) {
  Numbers& numbers = AllNumbers();
  const std::lock_guard<std::mutex> lock(numbers.mutex);
  numbers.digits.insert(Digits(number));
}

void RemoveCallbackNumber(uint64_t number) {
  Numbers& numbers = AllNumbers();
  const std::lock_guard<std::mutex> lock(numbers.mutex);
  numbers.digits.erase(Digits(number));
}

CallbackNames::CallbackNames(std::string_view program) : program_(program) {
  std::vector<size_t> places;
  for (size_t at = 0; (at = FindDigits(program, at)) != std::string_view::npos;
       at += kCallbackDigits) {
    places.push_back(at);
  }
  if (places.empty()) return;
  std::set<std::string, std::less<>> data;  // digits that name no function
  {
    Numbers& numbers = AllNumbers();
    const std::lock_guard<std::mutex> lock(numbers.mutex);
    std::erase_if(places, [&](size_t at) {
      const std::string_view digits = program.substr(at, kCallbackDigits);
      const bool is_name = numbers.digits.contains(digits);
      if (!is_name) data.emplace(digits);
      return !is_name;
    });
  }
  if (places.empty()) return;
  masked_ = program;
  uint64_t next = 0;
  for (const size_t at : places) {
    const std::string_view digits = program.substr(at, kCallbackDigits);
    auto known = std::ranges::find(names_, digits, &std::pair<std::string, std::string>::first);
    if (known == names_.end()) {
      while (data.contains(Digits(next))) ++next;
      known = names_.emplace(known, digits, Digits(next++));
    }
    masked_.replace(at, kCallbackDigits, known->second);
  }
  program_ = masked_;
}

void CallbackNames::PutBack(std::string& artifact) const {
  if (names_.empty()) return;
  for (size_t at = 0; (at = FindDigits(artifact, at)) != std::string::npos; at += kCallbackDigits) {
    const std::string_view digits = std::string_view(artifact).substr(at, kCallbackDigits);
    const auto known =
        std::ranges::find(names_, digits, &std::pair<std::string, std::string>::second);
    if (known != names_.end()) artifact.replace(at, kCallbackDigits, known->first);
  }
  SealArtifact(artifact);
}

}  // namespace tripont
