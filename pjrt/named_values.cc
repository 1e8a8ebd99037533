#include "pjrt/named_values.h"

#include <optional>
#include <utility>

#include "core/runtime/strings.h"
#include "pjrt/call.h"

namespace tripont::pjrt {

PJRT_NamedValue& NamedValues::Add(std::string_view name, PJRT_NamedValue_Type type,
                                  size_t value_size) {
  const std::string& owned = strings_.emplace_back(name);
  PJRT_NamedValue& value = values_.emplace_back();
  value.struct_size = PJRT_NamedValue_STRUCT_SIZE;
  value.extension_start = nullptr;
  value.name = owned.data();
  value.name_size = owned.size();
  value.type = type;
  value.value_size = value_size;
  return value;
}

void NamedValues::AddString(std::string_view name, std::string_view value) {
  const std::string& owned = strings_.emplace_back(value);
  Add(name, PJRT_NamedValue_kString, value.size()).string_value = owned.data();
}

void NamedValues::AddInt64(std::string_view name, int64_t value) {
  Add(name, PJRT_NamedValue_kInt64, 1).int64_value = value;
}

void NamedValues::AddInt64List(std::string_view name, std::vector<int64_t> value) {
  const std::vector<int64_t>& owned = lists_.emplace_back(std::move(value));
  Add(name, PJRT_NamedValue_kInt64List, owned.size()).int64_array_value = owned.data();
}

void NamedValues::AddFloat(std::string_view name, float value) {
  Add(name, PJRT_NamedValue_kFloat, 1).float_value = value;
}

Status CheckNamedValue(const PJRT_NamedValue& value) {
  if (value.name == nullptr && value.name_size > 0)
    return InvalidArgument("the name of an option is null, but its size is ", value.name_size);
  const int type = NumberOf(value.type);
  const bool is_null = (type == PJRT_NamedValue_kString && value.string_value == nullptr) ||
                       (type == PJRT_NamedValue_kInt64List && value.int64_array_value == nullptr);
  if (is_null && value.value_size > 0) {
    return InvalidArgument("the value of the option '", NameOf(value),
                           "' is null, but its size is ", value.value_size);
  }
  return OkStatus();
}

std::string ValueAsText(const PJRT_NamedValue& value) {
  switch (NumberOf(value.type)) {
    case PJRT_NamedValue_kString:
      return std::string(std::string_view(value.string_value, value.value_size));
    case PJRT_NamedValue_kInt64:
      return std::to_string(value.int64_value);
    case PJRT_NamedValue_kInt64List: {
      std::string text;
      for (size_t i = 0; i < value.value_size; ++i) {
        if (i > 0) text += ',';
        text += std::to_string(value.int64_array_value[i]);
      }
      return text;
    }
    case PJRT_NamedValue_kFloat:
      return std::to_string(value.float_value);
    case PJRT_NamedValue_kBool:
      return value.bool_value ? "true" : "false";
    default:  // any number can come in
      return "";
  }
}

StatusOr<int64_t> ValueAsInt64(const PJRT_NamedValue& value) {
  if (value.type == PJRT_NamedValue_kInt64) return value.int64_value;
  const std::string text = ValueAsText(value);
  const std::optional<int64_t> number = ToNumber(text);
  if (number) return *number;
  return InvalidArgument("option ", NameOf(value), "='", text, "' is not an integer");
}

}  // namespace tripont::pjrt
