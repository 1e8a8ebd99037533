#include "core/runtime/status.h"

#include <iterator>

namespace tripont {

std::string_view StatusCodeName(StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < std::size(kStatusCodeNames) ? kStatusCodeNames[index] : "UNKNOWN";
}

StatusCode StatusCodeFromInt(int code) {
  return code >= 0 && static_cast<size_t>(code) < std::size(kStatusCodeNames)
             ? static_cast<StatusCode>(code)
             : StatusCode::kUnknown;
}

Status::Status(StatusCode code, std::string message) {
  if (code != StatusCode::kOk) rep_ = std::make_shared<const Rep>(Rep{code, std::move(message)});
}

const std::string& Status::message() const {
  static const std::string* const empty = new std::string;
  return rep_ == nullptr ? *empty : rep_->message;
}

std::string Status::ToString() const {
  return ok() ? "OK" : StrCat(StatusCodeName(code()), ": ", message());
}

Status Status::WithPrefix(std::string_view prefix) const {
  return ok() ? *this : Status(code(), StrCat(prefix, ": ", message()));
}

}  // namespace tripont
