#include "pjrt/exchange.h"

#include <utility>

#include "core/runtime/exceptions.h"
#include "core/runtime/exchange.h"
#include "pjrt/buffer.h"
#include "pjrt/call.h"

namespace tripont::pjrt {
namespace {

Status Collect(int64_t ticket, PJRT_Device* device, PJRT_Buffer** handle) {
  if (device == nullptr || handle == nullptr) return InvalidArgument("the device is null");
  TRIPONT_ASSIGN_OR_RETURN(Ref<Buffer> buffer, exchange::Collect(ticket));
  if (buffer->device() != device->device) {
    return InvalidArgument("the array ", buffer->shape(), " is on device ", buffer->device()->id(),
                           ", not on device ", device->device->id());
  }
  PJRT_Memory* const memory = device->memory(buffer->memory()->kind());
  *handle = new PJRT_Buffer(std::move(buffer), memory);
  return OkStatus();
}

}  // namespace
}  // namespace tripont::pjrt

PJRT_Error* tripont_exchange_collect(int64_t ticket, PJRT_Device* device, PJRT_Buffer** buffer) {
  return tripont::pjrt::ToError(tripont::Guarded(
      "taking an array over", [&] { return tripont::pjrt::Collect(ticket, device, buffer); }));
}
