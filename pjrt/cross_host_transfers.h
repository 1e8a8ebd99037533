// The extension by which jax.device_put moves an array to a device of another process.
#ifndef TRIPONT_PJRT_CROSS_HOST_TRANSFERS_H_
#define TRIPONT_PJRT_CROSS_HOST_TRANSFERS_H_

#include "xla/pjrt/c/pjrt_c_api.h"

namespace tripont::pjrt {

// Part of the chain of extensions of the function table. Never freed.
PJRT_Extension_Base* CrossHostTransfersExtension();

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_CROSS_HOST_TRANSFERS_H_
