// Status and StatusOr: the result of everything that can fail.
//
// Codes are those of absl::StatusCode and PJRT_Error_Code (same numbers,
// core/schema/status_codes.py), so that pjrt/ passes them through unchanged. Messages are for the
// user: they name the op, shape, dtype, device or file concerned, and what to do next if known. An OK status is a null pointer: creating, copying and
// testing one costs nothing. No function of the runtime throws.
#ifndef TRIPONT_CORE_RUNTIME_STATUS_H_
#define TRIPONT_CORE_RUNTIME_STATUS_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/runtime/export.h"
#include "core/runtime/strings.h"
#include "core/schema/status_codes.h"

namespace tripont {

// "INVALID_ARGUMENT" and so on; "UNKNOWN" for a number that is not one of the codes.
TRIPONT_EXPORT std::string_view StatusCodeName(StatusCode code);
// The code of a number from outside the program; kUnknown for a number that is not one of the codes.
TRIPONT_EXPORT StatusCode StatusCodeFromInt(int code);

// Thread-safe to copy and read; a copy shares the message.
class [[nodiscard]] TRIPONT_EXPORT Status {
 public:
  Status() = default;  // OK
  Status(StatusCode code, std::string message);

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ == nullptr ? StatusCode::kOk : rep_->code; }
  // Empty for OK. Valid as long as any copy of this status lives.
  const std::string& message() const;
  // "INVALID_ARGUMENT: message", or "OK".
  std::string ToString() const;
  // The same code with "prefix: " before the message; OK stays OK.
  Status WithPrefix(std::string_view prefix) const;

 private:
  struct Rep {
    StatusCode code;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

inline Status OkStatus() { return Status(); }

#define TRIPONT_DEFINE_STATUS_FUNCTION(name, code)     \
  template <typename... Parts>                         \
  Status name(const Parts&... parts) {                 \
    return Status(StatusCode::code, StrCat(parts...)); \
  }
// Each takes the parts of the message: InvalidArgument("expected ", 2, " operands").
TRIPONT_DEFINE_STATUS_FUNCTION(Cancelled, kCancelled)
TRIPONT_DEFINE_STATUS_FUNCTION(InvalidArgument, kInvalidArgument)
TRIPONT_DEFINE_STATUS_FUNCTION(DeadlineExceeded, kDeadlineExceeded)
TRIPONT_DEFINE_STATUS_FUNCTION(NotFound, kNotFound)
TRIPONT_DEFINE_STATUS_FUNCTION(PermissionDenied, kPermissionDenied)
TRIPONT_DEFINE_STATUS_FUNCTION(ResourceExhausted, kResourceExhausted)
TRIPONT_DEFINE_STATUS_FUNCTION(FailedPrecondition, kFailedPrecondition)
TRIPONT_DEFINE_STATUS_FUNCTION(OutOfRange, kOutOfRange)
TRIPONT_DEFINE_STATUS_FUNCTION(Unimplemented, kUnimplemented)
TRIPONT_DEFINE_STATUS_FUNCTION(Internal, kInternal)
TRIPONT_DEFINE_STATUS_FUNCTION(Unavailable, kUnavailable)
TRIPONT_DEFINE_STATUS_FUNCTION(DataLoss, kDataLoss)
#undef TRIPONT_DEFINE_STATUS_FUNCTION

// A value, or the status that says why there is none (never OK).
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}         // NOLINT: implicit on purpose
  StatusOr(Status status) : status_(std::move(status)) {  // NOLINT: implicit on purpose
    if (status_.ok()) status_ = Status(StatusCode::kInternal, "StatusOr made from an OK status");
  }
  template <typename U>
    requires(std::is_convertible_v<U, T> && !std::is_same_v<std::remove_cvref_t<U>, StatusOr> &&
             !std::is_same_v<std::remove_cvref_t<U>, Status> &&
             !std::is_same_v<std::remove_cvref_t<U>, T>)
  StatusOr(U&& value) : value_(std::forward<U>(value)) {}  // NOLINT: implicit on purpose

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // Only if ok().
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

#define TRIPONT_STATUS_CONCAT_INNER(a, b) a##b
#define TRIPONT_STATUS_CONCAT(a, b) TRIPONT_STATUS_CONCAT_INNER(a, b)

// Returns from the enclosing function with the status of `expression` unless it is OK.
#define TRIPONT_RETURN_IF_ERROR(expression)                                      \
  do {                                                                           \
    if (::tripont::Status tripont_status = (expression); !tripont_status.ok()) { \
      return tripont_status;                                                     \
    }                                                                            \
  } while (false)

// `declaration = value of expression`, or returns its status.
#define TRIPONT_ASSIGN_OR_RETURN(declaration, expression)                                         \
  TRIPONT_ASSIGN_OR_RETURN_IMPL(TRIPONT_STATUS_CONCAT(tripont_status_or_, __LINE__), declaration, \
                                expression)
#define TRIPONT_ASSIGN_OR_RETURN_IMPL(temporary, declaration, expression) \
  auto temporary = (expression);                                          \
  if (!temporary.ok()) return temporary.status();                         \
  declaration = std::move(temporary).value()

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_STATUS_H_
