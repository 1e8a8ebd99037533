// Lists of PJRT_NamedValue: attributes that we return and options that we are given.
#ifndef TRIPONT_PJRT_NAMED_VALUES_H_
#define TRIPONT_PJRT_NAMED_VALUES_H_

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/status.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::pjrt {

// Builds a list whose strings and arrays it owns. data() stays valid while the object lives and
// does not change.
class NamedValues {
 public:
  NamedValues() = default;
  NamedValues(const NamedValues&) = delete;
  NamedValues& operator=(const NamedValues&) = delete;

  void AddString(std::string_view name, std::string_view value);
  void AddInt64(std::string_view name, int64_t value);
  void AddInt64List(std::string_view name, std::vector<int64_t> value);
  void AddFloat(std::string_view name, float value);

  const PJRT_NamedValue* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  PJRT_NamedValue& Add(std::string_view name, PJRT_NamedValue_Type type, size_t value_size);

  std::vector<PJRT_NamedValue> values_;
  std::deque<std::string> strings_;  // a deque: growing it moves no string
  std::deque<std::vector<int64_t>> lists_;
};

// INVALID_ARGUMENT if the option's name, string or list is null and not empty. To be called before
// the functions below.
Status CheckNamedValue(const PJRT_NamedValue& value);

// The option's value as text, whatever its type ("true", "4", "1,2,3").
std::string ValueAsText(const PJRT_NamedValue& value);

// The option's value as an integer. INVALID_ARGUMENT naming the option if it is neither an integer
// nor the text of one.
StatusOr<int64_t> ValueAsInt64(const PJRT_NamedValue& value);

inline std::string_view NameOf(const PJRT_NamedValue& value) {
  return {value.name, value.name_size};
}

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_NAMED_VALUES_H_
