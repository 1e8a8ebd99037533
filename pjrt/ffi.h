// The FFI extension of the PJRT C API: custom call handlers, types and user data for programs that
// do not come through Python.
#ifndef TRIPONT_PJRT_FFI_H_
#define TRIPONT_PJRT_FFI_H_

#include <memory>

#include "core/runtime/library/registry.h"
#include "xla/pjrt/c/pjrt_c_api.h"

// Executions that have started keep the data as it was then.
struct PJRT_ExecuteContext {
  std::shared_ptr<const tripont::UserData> user_data;
};

namespace tripont::pjrt {

// Never destroyed.
PJRT_Extension_Base* FfiExtension();

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_FFI_H_
