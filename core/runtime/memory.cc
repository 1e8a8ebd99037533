#include "core/runtime/memory.h"

namespace tripont {

std::string_view MemoryKindName(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kDevice:
      return "device";
    case MemoryKind::kPinnedHost:
      return "pinned_host";
    case MemoryKind::kUnpinnedHost:
      return "unpinned_host";
  }
  return "unknown";
}

std::optional<MemoryKind> MemoryKindFromName(std::string_view name) {
  for (int i = 0; i < kNumMemoryKinds; ++i) {
    if (MemoryKindName(static_cast<MemoryKind>(i)) == name) return static_cast<MemoryKind>(i);
  }
  return std::nullopt;
}

}  // namespace tripont
