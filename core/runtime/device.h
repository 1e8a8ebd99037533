// Device: what programs run on: a device of a backend (backend.h), such as this machine's CPU.
//
// Each device has its own stream, memories and statistics, and a queue of its backend's, which the
// stream's tasks fill. Several devices may stand for one piece of hardware: host devices share the
// CPU's threads.
#ifndef TRIPONT_CORE_RUNTIME_DEVICE_H_
#define TRIPONT_CORE_RUNTIME_DEVICE_H_

#include <array>
#include <memory>
#include <span>
#include <string>

#include "core/runtime/backend.h"
#include "core/runtime/collectives_in_flight.h"
#include "core/runtime/export.h"
#include "core/runtime/memory.h"
#include "core/runtime/stream.h"

namespace tripont {

// Owned by the core; lives as long as the process. Thread-safe.
class TRIPONT_EXPORT Device {
 public:
  // A device of `backend`, with `queue` as its queue.
  Device(int id, MemoryBudget* budget, int64_t cache_limit, int64_t inline_ns, Backend& backend,
         std::unique_ptr<DeviceQueue> queue);

  int id() const { return id_; }
  // The backend's: "host", "sycl"
  const std::string& target() const { return target_; }
  // For people: "host (AMD EPYC 9654)"
  const std::string& description() const { return description_; }
  DeviceQueue& queue() const { return *queue_; }
  // Whether the device can read and write all memory of the process, not only what its memories
  // allocated.
  bool uses_host_memory() const { return uses_host_memory_; }
  Stream& stream() { return stream_; }
  // Does the collectives that run beside the stream.
  Wire& wire() { return wire_; }
  Memory* memory(MemoryKind kind) const { return memories_[static_cast<int>(kind)].get(); }
  Memory* default_memory() const { return memory(MemoryKind::kDevice); }
  // For an execution's temporary values that only kernels use.
  Allocator& temporaries() const {
    return temporaries_ != nullptr ? *temporaries_ : default_memory()->allocator();
  }
  // Statistics of the memory of a kind; those of kind `device` include temporary values.
  AllocatorStats memory_stats(MemoryKind kind) const;
  // The peak and the largest block that memory_stats() gives count from now on.
  void ResetPeakMemory(MemoryKind kind);
  // All memories, by kind.
  std::array<Memory*, kNumMemoryKinds> memories() const;
  // Programs estimated to take less than this run on the caller's thread when the stream is idle.
  int64_t inline_ns() const { return inline_ns_; }

 private:
  const int id_;
  const std::string target_;
  const std::string description_;
  const bool uses_host_memory_;
  const std::unique_ptr<DeviceQueue> queue_;
  const int64_t inline_ns_;
  Stream stream_;
  Wire wire_;
  std::array<std::unique_ptr<Memory>, kNumMemoryKinds> memories_;
  std::unique_ptr<Allocator> temporaries_;  // null: temporary values live in the default memory
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_DEVICE_H_
