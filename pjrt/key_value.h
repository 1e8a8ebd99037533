// The key-value store that a framework hands to PJRT_Client_Create.
#ifndef TRIPONT_PJRT_KEY_VALUE_H_
#define TRIPONT_PJRT_KEY_VALUE_H_

#include <memory>

#include "core/runtime/hosts/key_value.h"
#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::pjrt {

// Calls the functions that `args` names, with the arguments that it names for them. Null if there
// are none. They are the framework's, and live as long as the client that is made, which closes the
// store when it is destroyed.
std::shared_ptr<hosts::KeyValueStore> MakeKeyValueStore(const PJRT_Client_Create_Args& args);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_KEY_VALUE_H_
