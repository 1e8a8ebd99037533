// What adapters ask about the memory of a device and the PJRT C API does not offer (nextpluggable).
//
// Exported by libtripont.so under these names. Any thread may call them.
#ifndef TRIPONT_PJRT_DEVICE_MEMORY_H_
#define TRIPONT_PJRT_DEVICE_MEMORY_H_

#include "core/runtime/export.h"
#include "xla/pjrt/c/pjrt_c_api.h"

extern "C" {

// The peak and the largest block of PJRT_Device_MemoryStats count from now on. INVALID_ARGUMENT for
// no device and for one of another process.
TRIPONT_EXPORT PJRT_Error* tripont_device_reset_peak_memory(PJRT_Device* device);
}

#endif  // TRIPONT_PJRT_DEVICE_MEMORY_H_
