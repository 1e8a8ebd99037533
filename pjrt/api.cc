// GetPjrtApi: the table of all functions. functions.h says what each one is.

#include <algorithm>
#include <cstdlib>
#include <new>
#include <string>

#include "core/runtime/exceptions.h"
#include "pjrt/call.h"
#include "pjrt/functions.h"
#include "pjrt/layouts.h"

namespace tripont::pjrt {
namespace {

#define TRIPONT_CONTRACT(name, field, handle) \
  TRIPONT_PJRT_CONTRACT(name, PJRT_##name##_Args, field, handle)
#define TRIPONT_CONTRACT_ON_NULL(name, field) \
  TRIPONT_PJRT_CONTRACT_WITHOUT_HANDLE(name, PJRT_##name##_Args, field)
#define TRIPONT_SKIP(name)
TRIPONT_PJRT_FUNCTIONS(TRIPONT_CONTRACT, TRIPONT_CONTRACT_ON_NULL, TRIPONT_SKIP)
#undef TRIPONT_CONTRACT
#undef TRIPONT_CONTRACT_ON_NULL

// The first version of the API with the Shardings extension, which is all that it adds. Callers ask
// for the extension if the table's version is this one or a later one.
constexpr int kMinorWithShardings = 91;

// The error for when there is no memory for another one. Made with the table, never destroyed.
PJRT_Error* LastError() {
  static auto* const error = new PJRT_Error{ResourceExhausted("out of host memory")};
  return error;
}

// The three functions of PJRT_Error work on errors themselves, so they cannot fail in the usual
// way.

void ErrorDestroy(PJRT_Error_Destroy_Args* args) {
  if (args != nullptr && args->struct_size >= PJRT_Error_Destroy_Args_STRUCT_SIZE)
    if (args->error != LastError()) delete args->error;
}

void ErrorMessage(PJRT_Error_Message_Args* args) {
  if (args == nullptr || args->struct_size < PJRT_Error_Message_Args_STRUCT_SIZE) return;
  args->message = "";
  args->message_size = 0;
  if (args->error == nullptr) return;
  const std::string& message = args->error->status.message();
  args->message = message.data();
  args->message_size = message.size();
}

PJRT_Error* ErrorGetCode(PJRT_Error_GetCode_Args* args) {
  if (args == nullptr) return NullArgumentsError("PJRT_Error_GetCode");
  if (args->struct_size < PJRT_Error_GetCode_Args_STRUCT_SIZE) {
    return StructTooShortError("PJRT_Error_GetCode", args->struct_size,
                               PJRT_Error_GetCode_Args_STRUCT_SIZE, "code");
  }
  // The codes of both sides are those of absl::StatusCode.
  args->code = args->error == nullptr ? PJRT_Error_Code_OK
                                      : static_cast<PJRT_Error_Code>(args->error->status.code());
  return nullptr;
}

PJRT_Api MakeApi() {
  LastError();  // while there is memory
  PJRT_Api api{};
  api.struct_size = PJRT_Api_STRUCT_SIZE;
  api.extension_start = LayoutsExtension();
  api.pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
  api.pjrt_api_version.major_version = PJRT_API_MAJOR;
  api.pjrt_api_version.minor_version = std::max(PJRT_API_MINOR, kMinorWithShardings);
  api.PJRT_Error_Destroy = ErrorDestroy;
  api.PJRT_Error_Message = ErrorMessage;
  api.PJRT_Error_GetCode = ErrorGetCode;
#define TRIPONT_WORKS(name, ...) api.PJRT_##name = Call<"PJRT_" #name, Contract_##name, name>;
#define TRIPONT_UNIMPLEMENTED(name) \
  api.PJRT_##name = UnimplementedFunction<"PJRT_" #name>::Call<PJRT_##name##_Args>;
  TRIPONT_PJRT_FUNCTIONS(TRIPONT_WORKS, TRIPONT_WORKS, TRIPONT_UNIMPLEMENTED)
#undef TRIPONT_WORKS
#undef TRIPONT_UNIMPLEMENTED
  return api;
}

// The list in functions.h and the header's table must have the same length: no function is null.
#define TRIPONT_ONE(...) +1
constexpr size_t kListed = 3 TRIPONT_PJRT_FUNCTIONS(TRIPONT_ONE, TRIPONT_ONE, TRIPONT_ONE);
constexpr size_t kInHeader =
    (PJRT_Api_STRUCT_SIZE - offsetof(PJRT_Api, PJRT_Error_Destroy)) / sizeof(void (*)());
static_assert(kListed == kInHeader, "pjrt/functions.h misses functions of pjrt_c_api.h");
#undef TRIPONT_ONE

}  // namespace

Status ToStatus(const PJRT_Error_Code& code, const char* message, size_t message_size) {
  if (NumberOf(code) == PJRT_Error_Code_OK) return OkStatus();
  if (message == nullptr || message_size == 0)
    return Status(StatusCodeFromInt(NumberOf(code)), "an error that its maker says nothing about");
  return Status(StatusCodeFromInt(NumberOf(code)), std::string(message, message_size));
}

PJRT_Error* NullArgumentsError(const char* function) {
  return ToError(InvalidArgument(function, ": the argument struct is null"));
}

PJRT_Error* StructTooShortError(const char* function, size_t size, size_t required_size,
                                const char* field) {
  return ToError(InvalidArgument(
      function, ": struct_size is ", size, ", but ", required_size,
      " bytes are needed (up to field `", field,
      "`); the caller was built with a PJRT header that is too old, or did not set it"));
}

PJRT_Error* NullHandleError(const char* function, const char* handle) {
  return ToError(InvalidArgument(function, ": `", handle, "` is null"));
}

PJRT_Error* UnimplementedError(const char* function) {
  return ToError(Unimplemented(function, " is not implemented by tripont"));
}

PJRT_Error* NewError(Status status) noexcept {
  auto* const error = new (std::nothrow) PJRT_Error{std::move(status)};
  return error != nullptr ? error : LastError();
}

PJRT_Error* ExceptionError(const char* function) noexcept {
  return NewError(StatusOfException(function));
}

}  // namespace tripont::pjrt

// The entry point that every framework looks up in the plugin.
extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() {
  static const PJRT_Api api = tripont::pjrt::MakeApi();
  return &api;
}
