#include "core/runtime/backends/host/backend.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/runtime/code_image.h"
#include "core/runtime/cpu_info.h"
#include "core/runtime/parallel.h"

namespace tripont::host {
namespace {

class Queue final : public DeviceQueue {
 public:
  Queue() : description_(CpuName()) {}
  int device_number() const override { return 0; }
  const std::string& description() const override { return description_; }
  Status Copy(void* destination, const void* source, size_t size) override {
    ParallelCopy(destination, source, size);
    return OkStatus();
  }
  Status Wait() override { return OkStatus(); }

 private:
  const std::string description_;
};

// A kernel's handle is its address.
class Program final : public DeviceProgram {
 public:
  explicit Program(std::unique_ptr<CodeImage> code) : code_(std::move(code)) {}

  StatusOr<KernelHandle> FindKernel(int64_t function) override {
    const void* const address = HostFunction(function);
    if (address == nullptr) return InvalidArgument("kernel at ", function, " is outside the code");
    return reinterpret_cast<KernelHandle>(address);
  }

  Status Launch(DeviceQueue&, KernelHandle kernel, void* const* arguments, size_t,
                int64_t work_count, int64_t grain) const override {
    const auto function = reinterpret_cast<KernelFunction>(kernel);
    if (work_count <= grain) {
      if (work_count > 0) function(arguments, 0, work_count);
    } else {
      ParallelFor(work_count, grain, [function, arguments](int64_t begin, int64_t end) {
        function(arguments, begin, end);
      });
    }
    return OkStatus();
  }

  int64_t Sharers(int64_t work_count, int64_t grain) const override {
    return std::min<int64_t>(NumThreads(), 1 + (work_count - 1) / grain);
  }

  const void* HostFunction(int64_t offset) const override { return code_->Function(offset); }

 private:
  const std::unique_ptr<CodeImage> code_;
};

class CpuBackend final : public Backend {
 public:
  std::string_view target() const override { return "host"; }
  std::map<std::string, std::string> compiler_options() const override {
    return {{"target", "host"}};
  }
  int num_devices() const override { return 1; }
  StatusOr<std::unique_ptr<DeviceQueue>> MakeQueue(int) override {
    return std::unique_ptr<DeviceQueue>(std::make_unique<Queue>());
  }
  StatusOr<std::unique_ptr<DeviceProgram>> Load(const Artifact& artifact) override {
    TRIPONT_RETURN_IF_ERROR(CheckCpu(artifact));
    TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<CodeImage> code,
                             CodeImage::Map(artifact.code, artifact.imports));
    return std::unique_ptr<DeviceProgram>(std::make_unique<Program>(std::move(code)));
  }
};

}  // namespace

Status CheckCpu(const Artifact& artifact) {
  const std::string_view architecture =
      std::string_view(artifact.triple).substr(0, artifact.triple.find('-'));
  if (architecture != CpuArchitecture()) {
    return FailedPrecondition("the artifact is for ", artifact.triple, ", this machine is ",
                              CpuArchitecture());
  }
  std::vector<std::string> missing;
  for (const std::string& feature : artifact.cpu_features) {
    if (!CpuHasFeature(feature)) missing.push_back(feature);
  }
  if (missing.empty()) return OkStatus();
  return FailedPrecondition("the artifact was compiled for a CPU (", artifact.cpu,
                            ") with features that this CPU (", CpuName(),
                            ") lacks: ", StrJoin(missing, ", "), "; compile the program again",
                            ActingCpu().empty() ? "" : ", or unset TRIPONT_CPU");
}

const BackendRegistration& Registration() {
  static const auto* const registration = [] {
    auto* made = new BackendRegistration;
    made->name = "host";
    made->title = "host";
    made->device_option = "cpu";
    made->make = [](std::string_view, const std::string&) -> StatusOr<Backend*> {
      return new CpuBackend;
    };
    return made;
  }();
  return *registration;
}

}  // namespace tripont::host
