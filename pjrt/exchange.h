// Exchange of buffers with adapters that hold PJRT_Buffers (nextpluggable); core/runtime/exchange.h
// has the whole picture.
//
// Exported by libtripont.so under these names. Any thread may call them.
#ifndef TRIPONT_PJRT_EXCHANGE_H_
#define TRIPONT_PJRT_EXCHANGE_H_

#include <cstdint>

#include "core/runtime/export.h"
#include "xla/pjrt/c/pjrt_c_api.h"

extern "C" {

// A new handle, the caller's, on the buffer of that number, which is then void. NOT_FOUND for a
// number without a buffer, INVALID_ARGUMENT if the buffer is not on `device`.
TRIPONT_EXPORT PJRT_Error* tripont_exchange_collect(int64_t ticket, PJRT_Device* device,
                                                    PJRT_Buffer** buffer);
}

#endif  // TRIPONT_PJRT_EXCHANGE_H_
