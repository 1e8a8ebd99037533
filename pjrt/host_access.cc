#include "pjrt/host_access.h"

#include "core/runtime/exceptions.h"
#include "core/runtime/parallel.h"
#include "pjrt/buffer.h"
#include "pjrt/call.h"

namespace tripont::pjrt {
namespace {

Status AwaitContent(PJRT_Buffer* handle, void** address) {
  if (handle == nullptr || address == nullptr) return InvalidArgument("the buffer is null");
  Buffer& buffer = *handle->buffer;
  if (buffer.IsDeleted()) {
    return InvalidArgument("the buffer ", buffer.shape(), " was ",
                           buffer.IsDonated() ? "donated" : "deleted");
  }
  if (!buffer.device()->uses_host_memory()) {
    return Unimplemented("a kernel of the host cannot access the buffer ", buffer.shape(),
                         ": its device has memory of its own");
  }
  if (buffer.IsDeferred()) TRIPONT_RETURN_IF_ERROR(buffer.Acquire().status());
  if (!buffer.IsReady()) TRIPONT_RETURN_IF_ERROR(buffer.definition_event()->Await());
  *address = buffer.data();
  return OkStatus();
}

Status AwaitExclusive(PJRT_Buffer* handle, void** address) {
  TRIPONT_RETURN_IF_ERROR(AwaitContent(handle, address));
  if (!handle->buffer->IsExclusive()) {
    return FailedPrecondition("the memory of the buffer ", handle->buffer->shape(),
                              " can be seen from outside");
  }
  if (handle->buffer->HasHolds()) handle->buffer->WaitForHolds();
  return OkStatus();
}

}  // namespace
}  // namespace tripont::pjrt

PJRT_Error* tripont_buffer_await_read(PJRT_Buffer* buffer, void** address) {
  return tripont::pjrt::ToError(tripont::Guarded(
      "waiting for an array", [&] { return tripont::pjrt::AwaitContent(buffer, address); }));
}

PJRT_Error* tripont_buffer_await_write(PJRT_Buffer* buffer, void** address) {
  return tripont::pjrt::ToError(tripont::Guarded(
      "waiting for an array", [&] { return tripont::pjrt::AwaitExclusive(buffer, address); }));
}

void tripont_parallel_for(int64_t count, int64_t grain,
                          void (*body)(void* argument, int64_t begin, int64_t end),
                          void* argument) {
  tripont::ParallelFor(count, grain, body, argument);
}
