#include "core/runtime/device.h"

#include <algorithm>

#include "core/runtime/strings.h"

namespace tripont {

Device::Device(int id, MemoryBudget* budget, int64_t cache_limit, int64_t inline_ns,
               Backend& backend, std::unique_ptr<DeviceQueue> queue)
    : id_(id),
      target_(backend.target()),
      description_(StrCat(target_, " (", queue->description(), ")")),
      uses_host_memory_(backend.memory_source() == nullptr),
      queue_(std::move(queue)),
      inline_ns_(inline_ns),
      stream_(StrCat("tripont-", id)),
      wire_(id) {
  const int number = queue_->device_number();
  const auto source = [&](MemoryUse use) { return backend.memory_source(use, number); };
  for (int kind = 0; kind < kNumMemoryKinds; ++kind) {
    const auto memory = static_cast<MemoryKind>(kind);
    const MemoryUse use =
        memory == MemoryKind::kDevice ? MemoryUse::kArrays : MemoryUse::kHostArrays;
    memories_[kind] = std::make_unique<Memory>(this, memory, kNumMemoryKinds * id + kind, budget,
                                               cache_limit, source(use));
  }
  if (source(MemoryUse::kTemporaries) != source(MemoryUse::kArrays)) {
    temporaries_ =
        std::make_unique<Allocator>(budget, cache_limit, source(MemoryUse::kTemporaries));
  }
}

AllocatorStats Device::memory_stats(MemoryKind kind) const {
  AllocatorStats stats = memory(kind)->allocator().stats();
  if (kind != MemoryKind::kDevice || temporaries_ == nullptr) return stats;
  const AllocatorStats more = temporaries_->stats();
  stats.bytes_in_use += more.bytes_in_use;
  stats.peak_bytes_in_use += more.peak_bytes_in_use;
  stats.num_allocs += more.num_allocs;
  stats.largest_alloc_size = std::max(stats.largest_alloc_size, more.largest_alloc_size);
  stats.bytes_cached += more.bytes_cached;
  stats.bytes_reserved += more.bytes_reserved;
  return stats;
}

void Device::ResetPeakMemory(MemoryKind kind) {
  memory(kind)->allocator().ResetPeak();
  if (kind == MemoryKind::kDevice && temporaries_ != nullptr) temporaries_->ResetPeak();
}

std::array<Memory*, kNumMemoryKinds> Device::memories() const {
  std::array<Memory*, kNumMemoryKinds> memories;
  for (int kind = 0; kind < kNumMemoryKinds; ++kind) memories[kind] = memories_[kind].get();
  return memories;
}

}  // namespace tripont
