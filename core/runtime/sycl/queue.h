// An in-order SYCL queue.
#ifndef TRIPONT_CORE_RUNTIME_SYCL_QUEUE_H_
#define TRIPONT_CORE_RUNTIME_SYCL_QUEUE_H_

#include <memory>
#include <string>

#include "core/runtime/backend.h"
#include "core/runtime/sycl/backend.h"
#include "core/runtime/sycl/dpctl_api.h"

namespace tripont::sycl {

class Queue : public DeviceQueue {
 public:
  // `number`: which of the backend's devices it is.
  static StatusOr<std::unique_ptr<Queue>> Make(const Api& api, ContextRef context, DeviceRef device,
                                               int number, const DeviceInfo& info);

  const std::string& description() const override { return description_; }
  Status Copy(void* destination, const void* source, size_t size) override;
  Status Wait() override;

  int device_number() const override { return number_; }
  // dpctl's handle of a queue is a sycl::queue*.
  void* native() const override { return handle_.get(); }

  QueueRef handle() const { return handle_.get(); }
  int64_t compute_units() const { return compute_units_; }
  bool is_cpu() const { return is_cpu_; }

 private:
  Queue(const Api& api, Handle<QueueRef> handle, int number, const DeviceInfo& info);

  const Api& api_;
  const Handle<QueueRef> handle_;
  const int number_;
  const int64_t compute_units_;
  const bool is_cpu_;
  const std::string description_;
};

}  // namespace tripont::sycl

#endif  // TRIPONT_CORE_RUNTIME_SYCL_QUEUE_H_
