// SYCL devices: which there are, and the backend that runs programs on them (docs/sycl.md).
#ifndef TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_BACKEND_H_
#define TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_BACKEND_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/runtime/backend_registry.h"
#include "core/runtime/status.h"
#include "core/runtime/strings.h"

namespace tripont::sycl {

struct DeviceInfo {
  std::string name;  // "AMD EPYC 9654 96-Core Processor"
  std::string vendor;
  std::string backend;  // "opencl", "level_zero", "cuda", "hip"
  std::string kind;     // "cpu", "gpu", "accelerator"
  std::string driver_version;
  int64_t memory = 0;  // bytes
  int64_t compute_units = 0;
  bool fp64 = false;
  bool fp16 = false;
  bool usm_device = false;  // memory of the device can be allocated
  bool usm_host = false;    // memory of the host that the device can access
  bool usm_shared = false;  // memory that host and device share
  bool usm_system = false;  // the device can access all memory of the process
  std::vector<int64_t> sub_group_sizes;
  // For people: "AMD EPYC 9654 96-Core Processor (opencl:cpu)"
  std::string Description() const { return StrCat(name, " (", backend, ":", kind, ")"); }
};

// All devices of the SYCL runtime. `python`: the interpreter whose environment may hold it.
// UNAVAILABLE if there is no SYCL runtime.
StatusOr<std::vector<DeviceInfo>> ListDevices(const std::string& python);

// Whether this machine may have a SYCL GPU: there is a device node for one, and a SYCL runtime is
// installed. Cheap: opens no library.
bool MayHaveGpu(const std::string& python);

// The numbers of the devices that `choice` means: "" (the GPUs if there are any, else the CPUs),
// "gpu", "cpu"; "cpu-as-gpu": the CPUs, with the kernels of a GPU, to test those (slow). All are of
// one backend, the first that has such devices (a device may be there through Level Zero and
// through OpenCL). NOT_FOUND (with what there is) without such a device.
StatusOr<std::vector<size_t>> ChooseDevices(std::string_view choice,
                                            const std::vector<DeviceInfo>& devices);

// The backend of the devices that `choice` means. The errors of ChooseDevices; UNAVAILABLE without
// a SYCL runtime. The backend lives as long as the process.
StatusOr<Backend*> MakeBackend(std::string_view choice, const std::string& python);

const BackendRegistration& Registration();

}  // namespace tripont::sycl

#endif  // TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_BACKEND_H_
