// Backend: what a kind of device does in its own way.
//
// The CPU that runs the process is one kind (backends/host), SYCL devices are another
// (backends/sycl); backend_registry.h has them by name. Buffers, streams, events and executables
// are the same for all: an execution runs on the device's stream, which gives its kernels and
// copies to the device's queue and waits for that queue where the host reads what they wrote (a
// loop's predicate, a library call that runs on the host) and at the end. A queue may do its work
// later, in order, or before the call that gives it returns, as the host's does.
#ifndef TRIPONT_CORE_RUNTIME_BACKEND_H_
#define TRIPONT_CORE_RUNTIME_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/runtime/artifact.h"
#include "core/runtime/export.h"
#include "core/runtime/shape.h"
#include "core/runtime/status.h"

namespace tripont {

namespace onednn {
class Port;  // library/onednn_api.h
}

// What memory is for, and so what kind of it is taken.
enum class MemoryUse {
  kArrays,       // host and devices access it, the devices most (SYCL: shared)
  kHostArrays,   // host and devices access it, the host most (SYCL: host)
  kTemporaries,  // kernels of one device alone access it (SYCL: device)
};

// Where an allocator's memory comes from, when that is not the system.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  // `size` bytes at a multiple of 4096; null if there is no room.
  virtual void* Map(size_t size) = 0;
  virtual void Unmap(void* data, size_t size) = 0;
};

// One device's in-order queue. Thread-safe. Lives as long as the process.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  // Which of the backend's devices it belongs to.
  virtual int device_number() const = 0;
  // The device, for people: "AMD EPYC 9654 (opencl:cpu)".
  virtual const std::string& description() const = 0;
  // Copies `size` bytes, after everything that was enqueued before.
  virtual Status Copy(void* destination, const void* source, size_t size) = 0;
  // Blocks until everything that was enqueued is done. UNAVAILABLE if the device was lost.
  virtual Status Wait() = 0;
};

// What Launch is given for a kernel: a number or an address, as the program likes.
using KernelHandle = uintptr_t;

// A loaded program's code. Immutable when all its kernels have been found; thread-safe from then
// on.
class DeviceProgram {
 public:
  virtual ~DeviceProgram() = default;
  // The kernel whose function offset in the artifact is `function`. INVALID_ARGUMENT if there is
  // none.
  virtual StatusOr<KernelHandle> FindKernel(int64_t function) = 0;
  // Enqueues units [0, work_count) of a kernel; `grain`, at least 1, of them are the fewest that
  // are worth another thread. `arguments` need not outlive the call.
  virtual Status Launch(DeviceQueue& queue, KernelHandle kernel, void* const* arguments,
                        size_t num_arguments, int64_t work_count, int64_t grain) const = 0;
  // How many threads of the host, which is the device, share out `work_count` units.
  virtual int64_t Sharers(int64_t /*work_count*/, int64_t /*grain*/) const { return 1; }
  // Native code that library calls call on the host, by its offset in the artifact's code; null if
  // there is none.
  virtual const void* HostFunction(int64_t offset) const = 0;
};

// What a kernel of the user's is given for a parameter.
struct KernelArgument {
  PrimitiveType type = PrimitiveType::kInvalid;  // of a number; kInvalid: an array
  uint64_t bits = 0;                             // the number in the low bytes, or the address
};

// A kernel of the user's, built for all devices. Immutable; thread-safe.
class UserKernel {
 public:
  virtual ~UserKernel() = default;
  // Enqueues `items` work-items, in work-groups of `group` (0: of a size that the device chooses).
  virtual Status Launch(DeviceQueue& queue, std::span<const KernelArgument> arguments, size_t items,
                        size_t group) const = 0;
};

// All devices of one kind in the process. Made once, never destroyed. Thread-safe.
class TRIPONT_EXPORT Backend {
 public:
  virtual ~Backend() = default;
  // Its name in the registry, and the compiler's name of the target: "host", "sycl".
  virtual std::string_view target() const = 0;
  // What the compiler must be told to compile for these devices, "target" included.
  virtual std::map<std::string, std::string> compiler_options() const = 0;
  // Devices of the machine. A client may have more devices than these: they share them in turn.
  virtual int num_devices() const = 0;
  // A queue of device `index` (modulo num_devices).
  virtual StatusOr<std::unique_ptr<DeviceQueue>> MakeQueue(int index) = 0;
  // The code of an artifact for this target, ready to run on all devices. FAILED_PRECONDITION if it
  // needs what the devices lack; INTERNAL with the build log. `artifact` outlives the program.
  virtual StatusOr<std::unique_ptr<DeviceProgram>> Load(const Artifact& artifact) = 0;
  // Builds the kernel `name` of a module of the user's. `format`: "SPIR-V". FAILED_PRECONDITION if
  // these devices do not take modules of that format, INVALID_ARGUMENT if there is no such kernel,
  // INTERNAL with the build log.
  virtual StatusOr<std::unique_ptr<UserKernel>> LoadUserKernel(std::string_view format,
                                                               std::string_view module,
                                                               const std::string& name);
  // Null if devices can access all of the process's memory: then all of it is the system's.
  virtual MemorySource* memory_source(MemoryUse /*use*/ = MemoryUse::kArrays, int /*device*/ = 0) {
    return nullptr;
  }
  // How oneDNN works in the queues of these devices; null: its calls run on the host.
  virtual const onednn::Port* onednn() const { return nullptr; }
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_BACKEND_H_
