#include "core/runtime/status.h"

#include <array>

namespace tripont {
namespace {

constexpr std::array<std::string_view, 17> kNames = {
    "OK",        "CANCELLED",      "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
    "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
    "ABORTED",   "OUT_OF_RANGE",   "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
    "DATA_LOSS", "UNAUTHENTICATED"};

}  // namespace

std::string_view StatusCodeName(StatusCode code) {
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : "UNKNOWN";
}

StatusCode StatusCodeFromInt(int code) {
  return code >= 0 && static_cast<size_t>(code) < kNames.size() ? static_cast<StatusCode>(code)
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
