#include "pjrt/ffi.h"

#include <string_view>

#include "core/runtime/ffi/registry.h"
#include "pjrt/call.h"
#include "pjrt/custom_partitioner.h"
#include "xla/pjrt/c/pjrt_c_api_ffi_extension.h"

namespace tripont::pjrt {
namespace {

Status TypeRegister(PJRT_FFI_Type_Register_Args& args) {
  return ffi::RegisterType({args.type_name, args.type_name_size},
                           args.type_info == nullptr ? nullptr : args.type_info->deleter,
                           &args.type_id);
}

Status UserDataAdd(PJRT_FFI_UserData_Add_Args& args) {
  const int64_t type = args.user_data.type_id;
  if (!ffi::FindType(type))
    return NotFound("user data of type ", type, ", which is not registered");
  auto data = std::make_shared<UserData>();
  if (args.context->user_data != nullptr) *data = *args.context->user_data;
  if (!data->try_emplace(type, args.user_data.data).second) {
    return Status(StatusCode::kAlreadyExists,
                  StrCat("the context has user data of type ", type, " already"));
  }
  args.context->user_data = std::move(data);
  return OkStatus();
}

Status RegisterHandler(PJRT_FFI_Register_Handler_Args& args) {
  if ((args.target_name == nullptr && args.target_name_size > 0) ||
      (args.platform_name == nullptr && args.platform_name_size > 0)) {
    return InvalidArgument("`target_name` or `platform_name` is null, but its size is not 0");
  }
  const std::string_view name(args.target_name, args.target_name_size);
  const std::string_view platform(args.platform_name, args.platform_name_size);
  if (!ffi::IsOurPlatform(platform)) {
    return InvalidArgument("custom call '", name, "' for the platform '", platform,
                           "': this is 'xpu'");
  }
  ffi::HandlerBundle bundle{};
  bundle.execute = reinterpret_cast<ffi::Handler*>(args.handler);
  return ffi::RegisterHandler(name, bundle);
}

// The header defines no sizes for two of these structs under their own names.
TRIPONT_PJRT_CONTRACT(Type_Register, PJRT_FFI_Type_Register_Args, type_info, type_name)
TRIPONT_PJRT_CONTRACT(UserData_Add, PJRT_FFI_UserData_Add_Args, user_data, context)
TRIPONT_PJRT_CONTRACT(Register_Handler, PJRT_FFI_Register_Handler_Args, traits, handler)

}  // namespace

PJRT_Extension_Base* FfiExtension() {
  static PJRT_FFI_Extension extension = [] {
    PJRT_FFI_Extension result{};
    result.base = {PJRT_FFI_Extension_STRUCT_SIZE, PJRT_Extension_Type_FFI,
                   CustomPartitionerExtension()};
    result.type_register = Call<"PJRT_FFI_Type_Register", Contract_Type_Register, TypeRegister>;
    result.user_data_add = Call<"PJRT_FFI_UserData_Add", Contract_UserData_Add, UserDataAdd>;
    result.register_handler =
        Call<"PJRT_FFI_Register_Handler", Contract_Register_Handler, RegisterHandler>;
    return result;
  }();
  return &extension.base;
}

}  // namespace tripont::pjrt
