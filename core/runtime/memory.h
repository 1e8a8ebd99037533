// Memory: a place that buffers live in.
//
// A host device has three, of the kinds that JAX knows. On the host target all of them are ordinary
// memory that kernels can use in place; the kinds exist so that programs that name them run
// unchanged.
#ifndef TRIPONT_CORE_RUNTIME_MEMORY_H_
#define TRIPONT_CORE_RUNTIME_MEMORY_H_

#include <optional>
#include <string_view>

#include "core/runtime/allocator.h"
#include "core/runtime/export.h"

namespace tripont {

class Device;

enum class MemoryKind : int { kDevice = 0, kPinnedHost = 1, kUnpinnedHost = 2 };
inline constexpr int kNumMemoryKinds = 3;

// "device", "pinned_host", "unpinned_host"
TRIPONT_EXPORT std::string_view MemoryKindName(MemoryKind kind);
TRIPONT_EXPORT std::optional<MemoryKind> MemoryKindFromName(std::string_view name);

// Owned by its device; lives as long as the process. Thread-safe.
class TRIPONT_EXPORT Memory {
 public:
  Memory(Device* device, MemoryKind kind, int id, MemoryBudget* budget, int64_t cache_limit,
         MemorySource* source = nullptr)
      : device_(device), kind_(kind), id_(id), allocator_(budget, cache_limit, source) {}

  Device* device() const { return device_; }
  MemoryKind kind() const { return kind_; }
  std::string_view kind_name() const { return MemoryKindName(kind_); }
  // Unique in the process: 3 * device id + kind.
  int id() const { return id_; }
  Allocator& allocator() { return allocator_; }

 private:
  Device* const device_;
  const MemoryKind kind_;
  const int id_;
  Allocator allocator_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_MEMORY_H_
