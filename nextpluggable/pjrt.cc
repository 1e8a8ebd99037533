#include "nextpluggable/pjrt.h"

#include <atomic>
#include <optional>
#include <string>
#include <string_view>

#include "nextpluggable/donation.h"

namespace tripont::tensorflow {
namespace {

CoreFunctions the_core;
std::atomic<PJRT_Client*> the_client{nullptr};

PJRT_Error* CreateAndRemember(PJRT_Client_Create_Args* args) {
  PJRT_Error* error = Pjrt()->PJRT_Client_Create(args);
  if (error == nullptr) the_client = args->client;
  return error;
}

PJRT_Error* CompileWithDonation(PJRT_Client_Compile_Args* args) {
  const PJRT_Program* program = args->program;
  if (std::string_view(program->format, program->format_size) != "hlo") {
    return Pjrt()->PJRT_Client_Compile(args);
  }
  std::optional<std::string> code =
      AliasUpdatedVariables(std::string_view(program->code, program->code_size));
  if (!code) return Pjrt()->PJRT_Client_Compile(args);
  PJRT_Program aliased = *program;
  aliased.code = code->data();
  aliased.code_size = code->size();
  args->program = &aliased;
  PJRT_Error* error = Pjrt()->PJRT_Client_Compile(args);
  args->program = program;
  return error;
}

}  // namespace

void SetCore(const CoreFunctions& functions) { the_core = functions; }

const CoreFunctions& Core() { return the_core; }

const PJRT_Api* TableForTensorflow() {
  static const PJRT_Api table = [] {
    PJRT_Api api = *Pjrt();
    api.PJRT_Client_Create = CreateAndRemember;
    api.PJRT_Client_Compile = CompileWithDonation;
    return api;
  }();
  return &table;
}

PJRT_Client* TheClient() { return the_client; }

PJRT_Device* TheDevice(int ordinal) {
  auto devices = PjrtArguments<PJRT_Client_AddressableDevices_Args>();
  devices.client = TheClient();
  std::string ignored;
  if (PJRT_Error* error = Pjrt()->PJRT_Client_AddressableDevices(&devices)) {
    TakeError(error, &ignored);
    return nullptr;
  }
  const bool exists =
      ordinal >= 0 && static_cast<size_t>(ordinal) < devices.num_addressable_devices;
  return exists ? devices.addressable_devices[ordinal] : nullptr;
}

int TakeError(PJRT_Error* error, std::string* message) {
  auto get_code = PjrtArguments<PJRT_Error_GetCode_Args>();
  get_code.error = error;
  Pjrt()->PJRT_Error_GetCode(&get_code);
  auto get_message = PjrtArguments<PJRT_Error_Message_Args>();
  get_message.error = error;
  Pjrt()->PJRT_Error_Message(&get_message);
  message->assign(get_message.message, get_message.message_size);
  auto destroy = PjrtArguments<PJRT_Error_Destroy_Args>();
  destroy.error = error;
  Pjrt()->PJRT_Error_Destroy(&destroy);
  return get_code.code;
}

}  // namespace tripont::tensorflow
