#include "core/runtime/sycl/queue.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace tripont::sycl {
namespace {

// The last asynchronous error of any queue (SYCL's handlers have no argument of their own); 0:
// none.
std::atomic<int> last_error{0};

void OnError(int code) { last_error.store(code == 0 ? -1 : code, std::memory_order_release); }

}  // namespace

StatusOr<std::unique_ptr<Queue>> Queue::Make(const Api& api, ContextRef context, DeviceRef device,
                                             int number, const DeviceInfo& info) {
  Handle<QueueRef> handle(api.Queue_Create(context, device, &OnError, kInOrder));
  if (!handle) return Unavailable("cannot make a SYCL queue for ", info.name);
  return std::unique_ptr<Queue>(new Queue(api, std::move(handle), number, info));
}

Queue::Queue(const Api& api, Handle<QueueRef> handle, int number, const DeviceInfo& info)
    : api_(api),
      handle_(std::move(handle)),
      number_(number),
      compute_units_(std::max<int64_t>(info.compute_units, 1)),
      is_cpu_(info.kind == "cpu"),
      description_(StrCat(info.name, " (", info.backend, ":", info.kind, ")")) {}

Status Queue::Copy(void* destination, const void* source, size_t size) {
  if (size == 0) return OkStatus();
  const EventRef event = api_.Queue_Memcpy(handle_.get(), destination, source, size);
  if (event == nullptr)
    return Internal(description_, ": a copy of ", size, " bytes could not be enqueued");
  api_.Event_Delete(event);
  return OkStatus();
}

Status Queue::Wait() {
  api_.Queue_Wait(handle_.get());
  if (last_error.load(std::memory_order_acquire) == 0) return OkStatus();
  return Internal(description_, ": the device reported error ",
                  last_error.exchange(0, std::memory_order_acq_rel));
}

}  // namespace tripont::sycl
