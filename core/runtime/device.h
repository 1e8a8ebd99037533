// Device: what programs run on. For now always a host device: this machine's CPU.
//
// Several host devices share the CPU's threads; each has its own stream, memories and statistics.
#ifndef TRIPONT_CORE_RUNTIME_DEVICE_H_
#define TRIPONT_CORE_RUNTIME_DEVICE_H_

#include <array>
#include <memory>
#include <span>
#include <string>

#include "core/runtime/export.h"
#include "core/runtime/memory.h"
#include "core/runtime/stream.h"

namespace tripont {

// Owned by the core; lives as long as the process. Thread-safe.
class TRIPONT_EXPORT Device {
 public:
  Device(int id, MemoryBudget* budget, int64_t cache_limit, int64_t inline_ns);

  int id() const { return id_; }
  // "host"
  const std::string& target() const { return target_; }
  // For people: "host (AMD EPYC 9654)"
  const std::string& description() const { return description_; }
  Stream& stream() { return stream_; }
  Memory* memory(MemoryKind kind) const { return memories_[static_cast<int>(kind)].get(); }
  Memory* default_memory() const { return memory(MemoryKind::kDevice); }
  // All memories, by kind.
  std::array<Memory*, kNumMemoryKinds> memories() const;
  // Programs estimated to take less than this run on the caller's thread when the stream is idle.
  int64_t inline_ns() const { return inline_ns_; }

 private:
  const int id_;
  const std::string target_ = "host";
  std::string description_;
  const int64_t inline_ns_;
  Stream stream_;
  std::array<std::unique_ptr<Memory>, kNumMemoryKinds> memories_;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_DEVICE_H_
