// What a kind of device other than the host does in its own way.
//
// The host needs none of this: its kernels are functions that are called. A Backend stands for all
// devices of one kind in the process. Buffers, streams, events and executables are the same for
// all: an execution runs on the device's stream, which enqueues its kernels in the device's own
// queue and waits for them where the host reads what they wrote (a loop's predicate, a library call
// that runs on the host) and at the end.
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
#include "core/runtime/shape.h"
#include "core/runtime/status.h"

namespace tripont {

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

// What a library that works on a backend's devices is given: addresses of objects of the backend's
// own C++ interface (SYCL: sycl::device, sycl::context, sycl::queue). Valid as long as the process.
struct NativeDevice {
  void* device = nullptr;
  void* context = nullptr;
  void* queue = nullptr;  // in order, of nobody in particular: for what is done when programs load
};

// One device's in-order queue. Thread-safe.
class DeviceQueue {
 public:
  virtual ~DeviceQueue() = default;
  // Which of the backend's devices it belongs to.
  virtual int device_number() const = 0;
  // Address of the queue in the backend's own C++ interface (SYCL: sycl::queue).
  virtual void* native() const = 0;
  // For people: "AMD EPYC 9654 (opencl:cpu)".
  virtual const std::string& description() const = 0;
  // Enqueues a copy of `size` bytes.
  virtual Status Copy(void* destination, const void* source, size_t size) = 0;
  // Blocks until everything that was enqueued is done. INTERNAL if the device reported an error
  // since the last call.
  virtual Status Wait() = 0;
};

// A loaded program's kernels. Immutable; thread-safe.
class DeviceProgram {
 public:
  virtual ~DeviceProgram() = default;
  // The number of the kernel whose function offset in the artifact is `function`. INVALID_ARGUMENT
  // if there is none.
  virtual StatusOr<uint32_t> FindKernel(int64_t function) = 0;
  // Enqueues units [0, work_count) of a kernel. At most `grain` units are not worth another thread.
  virtual Status Launch(DeviceQueue& queue, uint32_t kernel, void* const* arguments,
                        size_t num_arguments, int64_t work_count, int64_t grain) const = 0;
  // Native code that library calls call back, and its offset in the artifact's code.
  virtual std::string_view host_code() const = 0;
  virtual int64_t host_code_offset() const = 0;
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

// Made once, never destroyed. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  // The compiler's name of the target: "sycl".
  virtual std::string_view target() const = 0;
  // What the compiler must be told to compile for these devices.
  virtual std::map<std::string, std::string> compiler_options() const = 0;
  virtual int num_devices() const = 0;
  virtual NativeDevice native_device(int index) const = 0;
  // The folder of the backend's libraries: those of libraries that work on its devices lie there
  // too.
  virtual std::string library_folder() const = 0;
  // A queue of device `index` (modulo num_devices).
  virtual StatusOr<std::unique_ptr<DeviceQueue>> MakeQueue(int index) = 0;
  // FAILED_PRECONDITION if the artifact is for another target or needs what the devices lack; then
  // builds its kernels: INTERNAL with the build log. `artifact` outlives the program.
  virtual StatusOr<std::unique_ptr<DeviceProgram>> Load(const Artifact& artifact) = 0;
  // Builds the kernel `name` of a module of the user's in the backend's own format (SYCL: SPIR-V).
  // INVALID_ARGUMENT if there is no such kernel, INTERNAL with the build log.
  virtual StatusOr<std::unique_ptr<UserKernel>> LoadUserKernel(std::string_view module,
                                                               const std::string& name) = 0;
  // Null if devices can access all of the process's memory: then all of it is the system's.
  virtual MemorySource* memory_source(MemoryUse use = MemoryUse::kArrays, int device = 0) = 0;
};

}  // namespace tripont

#endif  // TRIPONT_CORE_RUNTIME_BACKEND_H_
