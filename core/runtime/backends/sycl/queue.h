// An in-order SYCL queue.
//
// dpctl's C interface swallows the exceptions of the SYCL runtime, so a device that fails is found
// out in two ways: by the queue's handler of asynchronous errors, and because the last command is
// not complete though the queue was waited for. From then on every use of the queue is an error.
#ifndef TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_QUEUE_H_
#define TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "core/runtime/backend.h"
#include "core/runtime/backends/sycl/backend.h"
#include "core/runtime/backends/sycl/dpctl_api.h"

namespace tripont::sycl {

class Queue : public DeviceQueue {
 public:
  // `number`: which of the backend's devices it is.
  static StatusOr<std::unique_ptr<Queue>> Make(const Api& api, ContextRef context, DeviceRef device,
                                               int number, const DeviceInfo& info);

  const std::string& description() const override { return description_; }
  Status Copy(void* destination, const void* source, size_t size) override;
  Status Wait() override;
  // To be called with the event of every command that was enqueued. From time to time this waits,
  // so that a long loop does not fill the memory with commands.
  Status Enqueued(EventRef event);
  // What to call before a command is enqueued: UNAVAILABLE after the device was lost, and in a
  // child of fork, where the SYCL runtime's threads do not exist.
  Status CheckUsable() const;

  int device_number() const override { return number_; }
  QueueRef handle() const { return handle_.get(); }
  int64_t compute_units() const { return compute_units_; }
  bool is_cpu() const { return is_cpu_; }

 private:
  Queue(const Api& api, Handle<QueueRef> handle, int number, const DeviceInfo& info);
  Status WaitLocked();

  const Api& api_;
  const Handle<QueueRef> handle_;
  const int number_;
  const int64_t compute_units_;
  const bool is_cpu_;
  const std::string description_;
  std::mutex mutex_;
  Handle<EventRef> last_;     // of what was enqueued last; guarded by mutex_
  int64_t num_enqueued_ = 0;  // since the last wait; guarded by mutex_
  std::atomic<bool> lost_{false};
};

}  // namespace tripont::sycl

#endif  // TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_QUEUE_H_
