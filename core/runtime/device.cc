#include "core/runtime/device.h"

#include "core/runtime/cpu_info.h"
#include "core/runtime/strings.h"

namespace tripont {

Device::Device(int id, MemoryBudget* budget, int64_t cache_limit, int64_t inline_ns,
               Backend* backend, std::unique_ptr<DeviceQueue> queue)
    : id_(id),
      target_(backend != nullptr ? backend->target() : "host"),
      description_(queue != nullptr ? StrCat(target_, " (", queue->description(), ")")
                                    : StrCat("host (", CpuName(), ")")),
      uses_host_memory_(backend == nullptr || backend->memory_source() == nullptr),
      queue_(std::move(queue)),
      inline_ns_(inline_ns),
      stream_(StrCat("tripont-", id)) {
  MemorySource* const source = backend != nullptr ? backend->memory_source() : nullptr;
  for (int kind = 0; kind < kNumMemoryKinds; ++kind) {
    memories_[kind] =
        std::make_unique<Memory>(this, static_cast<MemoryKind>(kind), kNumMemoryKinds * id + kind,
                                 budget, cache_limit, source);
  }
}

std::array<Memory*, kNumMemoryKinds> Device::memories() const {
  std::array<Memory*, kNumMemoryKinds> memories;
  for (int kind = 0; kind < kNumMemoryKinds; ++kind) memories[kind] = memories_[kind].get();
  return memories;
}

}  // namespace tripont
