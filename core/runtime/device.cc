#include "core/runtime/device.h"

#include "core/runtime/cpu_info.h"
#include "core/runtime/strings.h"

namespace tripont {

Device::Device(int id, MemoryBudget* budget, int64_t cache_limit, int64_t inline_ns)
    : id_(id),
      description_(StrCat("host (", CpuName(), ")")),
      inline_ns_(inline_ns),
      stream_(StrCat("tripont-", id)) {
  for (int kind = 0; kind < kNumMemoryKinds; ++kind) {
    memories_[kind] = std::make_unique<Memory>(this, static_cast<MemoryKind>(kind), kNumMemoryKinds * id + kind, budget,
                                               cache_limit);
  }
}

std::array<Memory*, kNumMemoryKinds> Device::memories() const {
  std::array<Memory*, kNumMemoryKinds> memories;
  for (int kind = 0; kind < kNumMemoryKinds; ++kind) memories[kind] = memories_[kind].get();
  return memories;
}

}  // namespace tripont
