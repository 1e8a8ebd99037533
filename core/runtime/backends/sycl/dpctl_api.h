// The functions of dpctl's C interface (libDPCTLSyclInterface) that the runtime uses, loaded when
// they are first needed.
//
// The interface wraps the SYCL runtime in C functions, so that no SYCL compiler is needed to build
// tripont; and because it is opened by path, neither is dpctl. Handles that a function returns
// belong to the caller, who deletes them; functions that fail return null and never throw.
#ifndef TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_DPCTL_API_H_
#define TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_DPCTL_API_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/runtime/status.h"

namespace tripont::sycl {

// Opaque handles, as in dpctl_sycl_types.h.
using ContextRef = struct DPCTLOpaqueSyclContext*;
using DeviceRef = struct DPCTLOpaqueSyclDevice*;
using EventRef = struct DPCTLOpaqueSyclEvent*;
using KernelRef = struct DPCTLOpaqueSyclKernel*;
using KernelBundleRef = struct DPCTLOpaqueSyclKernelBundle*;
using QueueRef = struct DPCTLOpaqueSyclQueue*;
using UsmRef = struct DPCTLOpaqueSyclUSM*;
using DeviceVectorRef = struct DPCTLDeviceVector*;
using ErrorHandler = void(int code);

// Enumerations, as in dpctl_sycl_enum_types.h.
enum BackendType : int {
  kCuda = 1 << 16,
  kLevelZero = 1 << 17,
  kOpenCl = 1 << 18,
  kHip = 1 << 19,
  kAllBackends = 31 << 16
};
enum DeviceType : int {
  kAccelerator = 1,
  kCpu = 1 << 2,
  kGpu = 1 << 4,
  kAllDevices = (1 << 6) - 1
};
enum Aspect : int {
  kFp16 = 5,
  kFp64 = 6,
  kUsmDevice = 12,
  kUsmHost = 13,
  kUsmShared = 14,
  kUsmSystem = 15
};
enum ArgumentType : int {
  kInt8 = 0,
  kUint8 = 1,
  kInt16 = 2,
  kUint16 = 3,
  kInt32 = 4,
  kUint32 = 5,
  kInt64 = 6,
  kUint64 = 7,
  kFloat32 = 8,
  kFloat64 = 9,
  kPointer = 10
};
enum QueueProperty : int { kInOrder = 1 << 1 };
enum EventStatus : int { kComplete = 3 };

// member, result, parameters: the function DPCTL<member>.
#define TRIPONT_DPCTL_FUNCTIONS(X)                                                           \
  X(CString_Delete, void, (const char*))                                                     \
  X(DeviceMgr_GetDevices, DeviceVectorRef, (int types))                                      \
  X(DeviceVector_Create, DeviceVectorRef, ())                                                \
  X(DeviceVector_CreateFromArray, DeviceVectorRef, (size_t count, DeviceRef* devices))       \
  X(DeviceVector_Delete, void, (DeviceVectorRef))                                            \
  X(DeviceVector_Size, size_t, (DeviceVectorRef))                                            \
  X(DeviceVector_GetAt, DeviceRef, (DeviceVectorRef, size_t index))                          \
  X(Device_Delete, void, (DeviceRef))                                                        \
  X(Device_GetBackend, int, (DeviceRef))                                                     \
  X(Device_GetDeviceType, int, (DeviceRef))                                                  \
  X(Device_GetDriverVersion, const char*, (DeviceRef))                                       \
  X(Device_GetName, const char*, (DeviceRef))                                                \
  X(Device_GetVendor, const char*, (DeviceRef))                                              \
  X(Device_GetGlobalMemSize, uint64_t, (DeviceRef))                                          \
  X(Device_GetMaxComputeUnits, uint32_t, (DeviceRef))                                        \
  X(Device_HasAspect, bool, (DeviceRef, int aspect))                                         \
  X(Device_GetSubGroupSizes, size_t*, (DeviceRef, size_t* count))                            \
  X(Size_t_Array_Delete, void, (size_t*))                                                    \
  X(Context_CreateFromDevices, ContextRef, (DeviceVectorRef, ErrorHandler*, int properties)) \
  X(Queue_Create, QueueRef, (ContextRef, DeviceRef, ErrorHandler*, int properties))          \
  X(Queue_Delete, void, (QueueRef))                                                          \
  X(Queue_SubmitNDRange, EventRef,                                                           \
    (KernelRef, QueueRef, void** arguments, const int* types, size_t num_arguments,          \
     const size_t* global, const size_t* local, size_t dimensions, const EventRef* events,   \
     size_t num_events))                                                                     \
  X(Queue_SubmitRange, EventRef,                                                             \
    (KernelRef, QueueRef, void** arguments, const int* types, size_t num_arguments,          \
     const size_t* global, size_t dimensions, const EventRef* events, size_t num_events))    \
  X(Queue_Memcpy, EventRef, (QueueRef, void* destination, const void* source, size_t size))  \
  X(Queue_Wait, void, (QueueRef))                                                            \
  X(Event_Delete, void, (EventRef))                                                          \
  X(Event_GetCommandExecutionStatus, int, (EventRef))                                        \
  X(KernelBundle_CreateFromSpirv, KernelBundleRef,                                           \
    (ContextRef, DeviceRef, const void* spirv, size_t size, const char* options))            \
  X(KernelBundle_GetKernel, KernelRef, (KernelBundleRef, const char* name))                  \
  X(KernelBundle_HasKernel, bool, (KernelBundleRef, const char* name))                       \
  X(KernelBundle_Delete, void, (KernelBundleRef))                                            \
  X(Kernel_Delete, void, (KernelRef))                                                        \
  X(aligned_alloc_device, UsmRef, (size_t alignment, size_t size, QueueRef))                 \
  X(aligned_alloc_host, UsmRef, (size_t alignment, size_t size, QueueRef))                   \
  X(aligned_alloc_shared, UsmRef, (size_t alignment, size_t size, QueueRef))                 \
  X(free_with_queue, void, (UsmRef, QueueRef))

struct Api {
#define TRIPONT_DPCTL_MEMBER(member, result, parameters) result(*member) parameters = nullptr;
  TRIPONT_DPCTL_FUNCTIONS(TRIPONT_DPCTL_MEMBER)
#undef TRIPONT_DPCTL_MEMBER
  std::string path;            // of the library
  std::string library_folder;  // of the environment that it lies in: <prefix>/lib
};

// Opens the library, once a process; later calls give the same answer. It is looked for at
// TRIPONT_DPCTL_PATH (file or folder), in the site-packages that tripont lies in, and in those of
// the interpreter `python`. Before that, the OpenCL CPU runtime of the same environment is
// announced to the OpenCL loader (OCL_ICD_FILENAMES, unless that is set), because the wheel's own
// registration names a folder of the machine that it was built on. UNAVAILABLE, with where it was
// looked for and how to install it.
StatusOr<const Api*> Load(const std::string& python);
// Null if Load has not succeeded yet.
const Api* LoadedOrNull();
// Whether Load has a chance: the library's file exists.
bool IsInstalled(const std::string& python);

// Calls DPCTL<member>_Delete for handles of each type.
struct Deleter {
  void operator()(DeviceRef handle) const;
  void operator()(EventRef handle) const;
  void operator()(QueueRef handle) const;
  void operator()(KernelBundleRef handle) const;
  void operator()(KernelRef handle) const;
};
template <typename Ref>
using Handle = std::unique_ptr<std::remove_pointer_t<Ref>, Deleter>;

// A string that the interface gave, which is freed.
std::string TakeString(const Api& api, const char* text);
// The device's name without spaces at its ends.
std::string DeviceName(const Api& api, DeviceRef device);

}  // namespace tripont::sycl

#endif  // TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_DPCTL_API_H_
