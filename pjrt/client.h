// PJRT_Client, PJRT_Device and PJRT_Memory: one framework's handles on the shared core.
#ifndef TRIPONT_PJRT_CLIENT_H_
#define TRIPONT_PJRT_CLIENT_H_

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/runtime/client.h"
#include "core/runtime/device.h"
#include "core/runtime/hosts/job.h"
#include "core/runtime/memory.h"
#include "pjrt/topology.h"
#include "xla/pjrt/c/pjrt_c_api.h"

// All three are immutable once the client is made, so every query is a read of a field. Devices and
// memories are owned by their client. Buffers and executables point to them, but may be destroyed
// after the client: destroying one touches no handle. The runtime's devices, behind the handles,
// live as long as the process.
struct PJRT_Memory {
  PJRT_Client* client = nullptr;
  PJRT_Device* device = nullptr;  // the one device that addresses it
  tripont::Memory* memory = nullptr;
  int id = 0;  // unique in the job
  std::string debug_string;
};

struct PJRT_Device {
  PJRT_Client* client = nullptr;
  tripont::Device* device = nullptr;  // null: of another process, and so are its memories
  PJRT_DeviceDescription* description = nullptr;
  std::array<PJRT_Memory, tripont::kNumMemoryKinds> memories;  // by kind
  std::array<PJRT_Memory*, tripont::kNumMemoryKinds> memory_pointers{};

  bool is_addressable() const { return device != nullptr; }
  PJRT_Memory* memory(tripont::MemoryKind kind) { return memory_pointers[static_cast<int>(kind)]; }
  PJRT_Memory* default_memory() { return memory(tripont::MemoryKind::kDevice); }
};

struct PJRT_Client {
  tripont::Ref<tripont::Client> client;
  std::unique_ptr<PJRT_TopologyDescription> topology;
  tripont::hosts::Job* job = nullptr;                    // null: this process is alone
  std::shared_ptr<tripont::hosts::KeyValueStore> store;  // the job's, which this client brought
  std::vector<std::unique_ptr<PJRT_Device>> devices;     // of all processes, by id
  std::vector<PJRT_Device*> device_pointers;
  std::vector<PJRT_Device*> addressable_pointers;  // of this process
  std::vector<PJRT_Memory*> memory_pointers;
  // Who asks for optimised programs gets their outlines: pjrt/optimized_program.h.
  bool gives_outlines = false;

  PJRT_Client() = default;
  PJRT_Client(const PJRT_Client&) = delete;
  PJRT_Client& operator=(const PJRT_Client&) = delete;
  // What keeps the store may go when this returns.
  ~PJRT_Client() {
    if (job != nullptr) job->Forget(store);
  }

  // The device of this id, or null.
  PJRT_Device* device(int64_t id) const {
    return id >= 0 && id < static_cast<int64_t>(devices.size()) ? devices[id].get() : nullptr;
  }
};

namespace tripont::pjrt {

// Where a new buffer shall live: in `memory` if that is given, else in `device`'s default memory.
// INVALID_ARGUMENT if both are null, they are not the client's, or another process's.
StatusOr<PJRT_Memory*> TargetMemory(const PJRT_Client* client, PJRT_Memory* memory,
                                    PJRT_Device* device);

}  // namespace tripont::pjrt

#endif  // TRIPONT_PJRT_CLIENT_H_
