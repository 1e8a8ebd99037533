// What hand-written kernels of the host need, and the PJRT C API does not offer: the memory of a
// buffer when it may be read or written, and the runtime's threads.
//
// Exported by libtripont.so under these names, for adapters that run such kernels between compiled
// programs (nextpluggable). A kernel runs on the thread that calls it: a function here waits until
// programs that were enqueued before are done with the buffer.
#ifndef TRIPONT_PJRT_HOST_ACCESS_H_
#define TRIPONT_PJRT_HOST_ACCESS_H_

#include <cstdint>

#include "core/runtime/export.h"
#include "xla/pjrt/c/pjrt_c_api.h"

extern "C" {

// Waits for the buffer's content and gives its address, which stays valid while the caller keeps
// the buffer undeleted. The producer's error if there will be no content; INVALID_ARGUMENT for a
// deleted buffer; UNIMPLEMENTED for a device whose memory the host cannot access.
TRIPONT_EXPORT PJRT_Error* tripont_buffer_await_read(PJRT_Buffer* buffer, void** address);

// The same, and waits until nobody reads the buffer any more. The caller makes sure that nobody
// starts to, and the memory must be seen by nobody else: FAILED_PRECONDITION for a view of foreign
// memory, or if external references exist.
TRIPONT_EXPORT PJRT_Error* tripont_buffer_await_write(PJRT_Buffer* buffer, void** address);

// Calls body(argument, begin, end) over disjoint pieces of [0, count) of about `grain` units or
// more each, on the runtime's threads and the caller's. Returns when all are done.
TRIPONT_EXPORT void tripont_parallel_for(int64_t count, int64_t grain,
                                         void (*body)(void* argument, int64_t begin, int64_t end),
                                         void* argument);
}

#endif  // TRIPONT_PJRT_HOST_ACCESS_H_
