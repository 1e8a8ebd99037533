// What stands between a caller of the C API and an implementation: struct_size, null handles,
// exceptions, errors.
#ifndef TRIPONT_PJRT_CALL_H_
#define TRIPONT_PJRT_CALL_H_

#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "core/runtime/status.h"
#include "xla/pjrt/c/pjrt_c_api.h"

// Owned by the caller, who frees it with PJRT_Error_Destroy.
struct PJRT_Error {
  tripont::Status status;
};

namespace tripont::pjrt {

// A new error for the caller; where there is no memory for it, one that was made at the start.
PJRT_Error* NewError(Status status) noexcept;

// Null for an OK status, else an error for the caller.
inline PJRT_Error* ToError(Status status) noexcept {
  if (status.ok()) [[likely]] {
    return nullptr;
  }
  return NewError(std::move(status));
}

// The number in an enum of the caller, who may have put any there: reading it as an enum would be
// undefined behaviour.
template <typename Enum>
int NumberOf(const Enum& value) {
  static_assert(sizeof(Enum) == sizeof(int));
  int number;
  std::memcpy(&number, &value, sizeof(number));
  return number;
}

// Gives the caller a text or an array that a handle keeps: it is read where it lies.
template <typename List, typename Pointer>
Status Lend(const List& list, Pointer& data, size_t& size) {
  data = list.data();
  size = list.size();
  return OkStatus();
}

// Gives the caller bytes, in a holder that it keeps until it calls `deleter`.
template <typename Args, typename Holder>
Status GiveBytes(std::string bytes, Args& args, Holder*& holder, void (*&deleter)(Holder*)) {
  holder = new Holder{std::move(bytes)};
  args.serialized_bytes = holder->bytes.data();
  args.serialized_bytes_size = holder->bytes.size();
  deleter = [](Holder* given) { delete given; };
  return OkStatus();
}

// The status that a caller's error code and message stand for; OK for PJRT_Error_Code_OK. An
// unknown code is kUnknown.
Status ToStatus(const PJRT_Error_Code& code, const char* message, size_t message_size);

// A string that can be a template argument.
template <size_t N>
struct FunctionName {
  char text[N];
  consteval FunctionName(const char (&literal)[N]) {  // NOLINT(google-explicit-constructor)
    for (size_t i = 0; i < N; ++i) text[i] = literal[i];
  }
};

// The errors below are out of line so that the checks cost a compare and a branch.
PJRT_Error* NullArgumentsError(const char* function);
PJRT_Error* StructTooShortError(const char* function, size_t size, size_t required_size,
                                const char* field);
PJRT_Error* NullHandleError(const char* function, const char* handle);
PJRT_Error* UnimplementedError(const char* function);
// Gives the error of the exception that is being handled.
PJRT_Error* ExceptionError(const char* function) noexcept;

// One function of the API. `Contract` says what the caller must give (see functions.h):
//   using Args; kFullSize, kRequiredSize, kField, kHandleName; static bool HasHandle(const Args&);
//
// struct_size is honoured both ways. A caller built with a newer header passes a longer struct:
// what we do not know is left alone. A caller built with an older header passes a shorter one: the
// implementation works on a zeroed copy of full length and only the caller's part is copied back,
// so nothing past its end is read or written.
template <FunctionName kName, typename Contract,
          Status (*kImplementation)(typename Contract::Args&)>
PJRT_Error* Call(typename Contract::Args* args) noexcept {
  using Args = typename Contract::Args;
  try {
    if (args == nullptr) [[unlikely]] {
      return NullArgumentsError(kName.text);
    }
    if (args->struct_size < Contract::kFullSize) [[unlikely]] {
      const size_t size = args->struct_size;
      if (size < Contract::kRequiredSize) {
        return StructTooShortError(kName.text, size, Contract::kRequiredSize, Contract::kField);
      }
      Args full{};
      std::memcpy(static_cast<void*>(&full), args, size);
      if (!Contract::HasHandle(full)) return NullHandleError(kName.text, Contract::kHandleName);
      Status status = kImplementation(full);
      std::memcpy(static_cast<void*>(args), &full, size);
      return ToError(std::move(status));
    }
    if (!Contract::HasHandle(*args)) [[unlikely]] {
      return NullHandleError(kName.text, Contract::kHandleName);
    }
    return ToError(kImplementation(*args));
  } catch (...) {
    return ExceptionError(kName.text);
  }
}

// A function we do not implement.
template <FunctionName kName>
struct UnimplementedFunction {
  template <typename Args>
  static PJRT_Error* Call(Args*) noexcept {
    return UnimplementedError(kName.text);
  }
};

// Defines `Contract_<name>` for a function of the API or of an extension. Two spellings because a
// handle may be absent.
#define TRIPONT_PJRT_CONTRACT(name, ArgsType, last_required_field, handle)                   \
  struct Contract_##name {                                                                   \
    using Args = ArgsType;                                                                   \
    static constexpr size_t kFullSize = ArgsType##_STRUCT_SIZE;                              \
    static constexpr size_t kRequiredSize = PJRT_STRUCT_SIZE(ArgsType, last_required_field); \
    static constexpr const char* kField = #last_required_field;                              \
    static constexpr const char* kHandleName = #handle;                                      \
    static bool HasHandle(const Args& args) { return args.handle != nullptr; }               \
  };
#define TRIPONT_PJRT_CONTRACT_WITHOUT_HANDLE(name, ArgsType, last_required_field)            \
  struct Contract_##name {                                                                   \
    using Args = ArgsType;                                                                   \
    static constexpr size_t kFullSize = ArgsType##_STRUCT_SIZE;                              \
    static constexpr size_t kRequiredSize = PJRT_STRUCT_SIZE(ArgsType, last_required_field); \
    static constexpr const char* kField = #last_required_field;                              \
    static constexpr const char* kHandleName = "";                                           \
    static constexpr bool HasHandle(const Args&) { return true; }                            \
  };

// A function of the API that gives one value, which is an expression of `args`.
#define TRIPONT_PJRT_GIVES(name, field, ...) \
  Status name(PJRT_##name##_Args& args) {    \
    args.field = __VA_ARGS__;                \
    return OkStatus();                       \
  }
// A function of the API that lends a text or an array that a handle keeps.
#define TRIPONT_PJRT_LENDS(name, data, size, ...) \
  Status name(PJRT_##name##_Args& args) { return Lend(__VA_ARGS__, args.data, args.size); }

// Whether the caller's nested struct (PJRT_ExecuteOptions, PJRT_Program) is long enough to have
// `field`.
#define TRIPONT_PJRT_HAS_FIELD(pointer, StructType, field) \
  ((pointer)->struct_size >= PJRT_STRUCT_SIZE(StructType, field))

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_CALL_H_
