#include "core/runtime/backends/sycl/queue.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "core/runtime/parallel.h"

namespace tripont::sycl {
namespace {

// Commands that may be in a queue before it is waited for.
constexpr int64_t kMostEnqueued = 4096;

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
      description_(info.Description()) {}

Status Queue::CheckUsable() const {
  if (lost_.load(std::memory_order_relaxed)) {
    return Unavailable(
        description_, ": the device was lost; start the process again, or use TRIPONT_DEVICE=host");
  }
  if (InForkedChild()) {
    return Unavailable(description_,
                       ": a SYCL device cannot be used in a child of fork(); start processes with "
                       "multiprocessing.get_context(\"spawn\")");
  }
  return OkStatus();
}

Status Queue::Copy(void* destination, const void* source, size_t size) {
  if (size == 0) return OkStatus();
  TRIPONT_RETURN_IF_ERROR(CheckUsable());
  const EventRef event = api_.Queue_Memcpy(handle_.get(), destination, source, size);
  if (event == nullptr)
    return Internal(description_, ": a copy of ", size, " bytes could not be enqueued");
  return Enqueued(event);
}

Status Queue::Enqueued(EventRef event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_.reset(event);
  return ++num_enqueued_ < kMostEnqueued ? OkStatus() : WaitLocked();
}

Status Queue::Wait() {
  TRIPONT_RETURN_IF_ERROR(CheckUsable());
  const std::lock_guard<std::mutex> lock(mutex_);
  return WaitLocked();
}

Status Queue::WaitLocked() {
  api_.Queue_Wait(handle_.get());
  num_enqueued_ = 0;
  const int error = last_error.exchange(0, std::memory_order_acq_rel);
  const int status =
      last_ == nullptr ? kComplete : api_.Event_GetCommandExecutionStatus(last_.get());
  last_.reset();
  if (error == 0 && status == kComplete) return OkStatus();
  lost_.store(true, std::memory_order_relaxed);
  return Unavailable(
      description_, ": the device was lost while it ran the program (",
      error != 0 ? StrCat("error ", error) : StrCat("a command ended in state ", status),
      "); start the process again, or use TRIPONT_DEVICE=host");
}

}  // namespace tripont::sycl
