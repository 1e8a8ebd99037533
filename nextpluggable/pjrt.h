// The core's PJRT table, for the adapter's own calls.
#ifndef TRIPONT_NEXTPLUGGABLE_PJRT_H_
#define TRIPONT_NEXTPLUGGABLE_PJRT_H_

#include <string>

#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::tensorflow {

// The table that SetPjrt was given. Set once, when the plugin is loaded.
const PJRT_Api* Pjrt();
void SetPjrt(const PJRT_Api* api);

// Destroys `error`. True if there was none; else false, and its message is in `*message`.
bool Succeeded(PJRT_Error* error, std::string* message);

// An argument struct, zeroed, with its struct_size.
template <typename Arguments>
Arguments PjrtArguments() {
  Arguments arguments{};
  arguments.struct_size = sizeof(Arguments);
  return arguments;
}

}  // namespace tripont::tensorflow

#endif  // TRIPONT_NEXTPLUGGABLE_PJRT_H_
