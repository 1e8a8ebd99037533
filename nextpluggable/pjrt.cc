#include "nextpluggable/pjrt.h"

namespace tripont::tensorflow {
namespace {
const PJRT_Api* the_api = nullptr;
}

const PJRT_Api* Pjrt() { return the_api; }

void SetPjrt(const PJRT_Api* api) { the_api = api; }

bool Succeeded(PJRT_Error* error, std::string* message) {
  if (error == nullptr) return true;
  PJRT_Error_Message_Args get = PjrtArguments<PJRT_Error_Message_Args>();
  get.error = error;
  Pjrt()->PJRT_Error_Message(&get);
  message->assign(get.message, get.message_size);
  PJRT_Error_Destroy_Args destroy = PjrtArguments<PJRT_Error_Destroy_Args>();
  destroy.error = error;
  Pjrt()->PJRT_Error_Destroy(&destroy);
  return false;
}

}  // namespace tripont::tensorflow
