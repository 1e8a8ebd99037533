// The kernels of a loaded artifact: a SYCL kernel bundle for each device.
#ifndef TRIPONT_CORE_RUNTIME_SYCL_PROGRAM_H_
#define TRIPONT_CORE_RUNTIME_SYCL_PROGRAM_H_

#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/runtime/backend.h"
#include "core/runtime/sycl/dpctl_api.h"

namespace tripont::sycl {

// How an artifact's code is laid out: see core/compiler/targets/sycl/target.py.
class Program : public DeviceProgram {
 public:
  // Builds the SPIR-V module for all devices. INVALID_ARGUMENT if the code is damaged, INTERNAL
  // with the build log.
  static StatusOr<std::unique_ptr<Program>> Build(const Api& api, ContextRef context,
                                                  std::span<const DeviceRef> devices,
                                                  const Artifact& artifact);

  StatusOr<uint32_t> FindKernel(int64_t function) override;
  Status Launch(DeviceQueue& queue, uint32_t kernel, void* const* arguments, size_t num_arguments,
                int64_t work_count, int64_t grain) const override;
  std::string_view host_code() const override { return host_code_; }
  int64_t host_code_offset() const override { return host_code_offset_; }

 private:
  struct Kernel {
    std::string name;
    size_t group = 0;  // work-items of a work-group that does a unit; 0: work-items do units alone
    std::vector<Handle<KernelRef>> by_device;
  };

  Program(const Api& api, const Artifact& artifact)
      : api_(api), code_(artifact.code), for_cpu_(artifact.cpu == "cpu") {}
  Status Split();

  const Api& api_;
  const std::string_view code_;
  const bool for_cpu_;  // kernels' work-items do blocks of units, else one
  std::string_view spirv_;
  std::string_view host_code_;
  int64_t host_code_offset_ = 0;
  std::vector<Handle<KernelBundleRef>> bundles_;  // one a device; empty if there are no kernels
  std::map<int64_t, uint32_t> numbers_;           // by function offset
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

#endif  // TRIPONT_CORE_RUNTIME_SYCL_PROGRAM_H_
