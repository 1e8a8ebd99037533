// The kernels of a loaded artifact: a SYCL kernel bundle for each device.
#ifndef TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_PROGRAM_H_
#define TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_PROGRAM_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/backend.h"
#include "core/runtime/backends/sycl/dpctl_api.h"
#include "core/runtime/code_image.h"

namespace tripont::sycl {

// How an artifact's code is laid out: see core/compiler/targets/sycl/target.py.
class Program : public DeviceProgram {
 public:
  // Builds the SPIR-V module for all devices. INVALID_ARGUMENT if the code is damaged, INTERNAL
  // with the build log.
  static StatusOr<std::unique_ptr<Program>> Build(const Api& api, ContextRef context,
                                                  std::span<const DeviceRef> devices,
                                                  const Artifact& artifact);

  // A kernel's handle is its number.
  StatusOr<KernelHandle> FindKernel(int64_t function) override;
  Status Launch(DeviceQueue& queue, KernelHandle kernel, void* const* arguments,
                size_t num_arguments, int64_t work_count, int64_t grain) const override;
  const void* HostFunction(int64_t offset) const override {
    return host_code_->Function(offset - host_code_offset_);
  }

 private:
  struct Kernel {
    std::string name;
    size_t group = 0;  // work-items of a work-group that does a unit; 0: work-items do units alone
    std::vector<Handle<KernelRef>> by_device;
  };

  Program(const Api& api, const Artifact& artifact)
      : api_(api), code_(artifact.code), for_cpu_(artifact.cpu == "cpu") {}
  // Finds the pieces of the code, and maps that of the host.
  Status Split(const Artifact& artifact);

  const Api& api_;
  const std::string_view code_;
  const bool for_cpu_;  // kernels' work-items do blocks of units, else one
  std::string_view spirv_;
  std::unique_ptr<CodeImage> host_code_;  // of no bytes if there is none
  int64_t host_code_offset_ = 0;
  std::vector<Handle<KernelBundleRef>> bundles_;  // one a device; empty if there are no kernels
  std::map<int64_t, KernelHandle> numbers_;       // by function offset
  std::vector<Kernel> kernels_;
};

// A kernel of a SPIR-V module that the user brings.
class SpirvKernel : public UserKernel {
 public:
  // Backend::LoadUserKernel.
  static StatusOr<std::unique_ptr<SpirvKernel>> Build(const Api& api, ContextRef context,
                                                      std::span<const DeviceRef> devices,
                                                      std::string_view spirv,
                                                      const std::string& name);
  Status Launch(DeviceQueue& queue, std::span<const KernelArgument> arguments, size_t items,
                size_t group) const override;

 private:
  SpirvKernel(const Api& api, std::string name) : api_(api), name_(std::move(name)) {}

  const Api& api_;
  const std::string name_;
  std::vector<Handle<KernelBundleRef>> bundles_;  // one a device
  std::vector<Handle<KernelRef>> kernels_;        // one a device
};

}  // namespace tripont::sycl

#endif  // TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_PROGRAM_H_
