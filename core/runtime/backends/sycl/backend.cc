#include "core/runtime/backends/sycl/backend.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <utility>

#include "core/runtime/backends/sycl/dpctl_api.h"
#include "core/runtime/backends/sycl/onednn.h"
#include "core/runtime/backends/sycl/program.h"
#include "core/runtime/backends/sycl/queue.h"
#include "core/runtime/logging.h"

namespace tripont::sycl {
namespace {

constexpr size_t kPage = 4096;
constexpr std::string_view kKernelFormat = "SPIR-V";
constexpr int64_t kSubGroup = 16;  // of kernels for GPUs: core/compiler/targets/sycl/target.py

std::string BackendName(int backend) {
  switch (backend) {
    case kOpenCl:
      return "opencl";
    case kLevelZero:
      return "level_zero";
    case kCuda:
      return "cuda";
    case kHip:
      return "hip";
    default:
      return "unknown";
  }
}

std::string KindName(int type) {
  switch (type) {
    case kCpu:
      return "cpu";
    case kGpu:
      return "gpu";
    case kAccelerator:
      return "accelerator";
    default:
      return "other";
  }
}

struct FoundDevice {
  Handle<DeviceRef> handle;
  DeviceInfo info;
};

DeviceInfo Describe(const Api& api, DeviceRef device) {
  DeviceInfo info;
  info.name = DeviceName(api, device);
  info.vendor = TakeString(api, api.Device_GetVendor(device));
  info.backend = BackendName(api.Device_GetBackend(device));
  info.kind = KindName(api.Device_GetDeviceType(device));
  info.driver_version = TakeString(api, api.Device_GetDriverVersion(device));
  info.memory = static_cast<int64_t>(api.Device_GetGlobalMemSize(device));
  info.compute_units = api.Device_GetMaxComputeUnits(device);
  info.fp64 = api.Device_HasAspect(device, kFp64);
  info.fp16 = api.Device_HasAspect(device, kFp16);
  info.usm_device = api.Device_HasAspect(device, kUsmDevice);
  info.usm_host = api.Device_HasAspect(device, kUsmHost);
  info.usm_shared = api.Device_HasAspect(device, kUsmShared);
  info.usm_system = api.Device_HasAspect(device, kUsmSystem);
  size_t count = 0;
  size_t* const sizes = api.Device_GetSubGroupSizes(device, &count);
  if (sizes != nullptr) {
    info.sub_group_sizes.assign(sizes, sizes + count);
    api.Size_t_Array_Delete(sizes);
  }
  return info;
}

std::vector<FoundDevice> FindDevices(const Api& api) {
  std::vector<FoundDevice> devices;
  const DeviceVectorRef list =
      api.DeviceMgr_GetDevices(static_cast<int>(kAllBackends) | static_cast<int>(kAllDevices));
  const size_t count = list != nullptr ? api.DeviceVector_Size(list) : 0;
  for (size_t i = 0; i < count; ++i) {
    Handle<DeviceRef> device(api.DeviceVector_GetAt(list, i));
    if (!device) continue;
    DeviceInfo info = Describe(api, device.get());
    devices.push_back({std::move(device), std::move(info)});
  }
  if (list != nullptr) api.DeviceVector_Delete(list);
  return devices;
}

// Unified shared memory of one kind, for devices that cannot access all memory of the process.
class UsmMemory : public MemorySource {
 public:
  using Allocate = UsmRef (*)(size_t alignment, size_t size, QueueRef queue);
  UsmMemory(const Api& api, Allocate allocate, QueueRef queue)
      : api_(api), allocate_(allocate), queue_(queue) {}
  void* Map(size_t size) override { return allocate_(kPage, size, queue_); }
  void Unmap(void* data, size_t) override {
    api_.free_with_queue(static_cast<UsmRef>(data), queue_);
  }

 private:
  const Api& api_;
  const Allocate allocate_;
  const QueueRef queue_;
};

class SyclBackend : public Backend {
 public:
  // `schedule`: the kind of device that kernels are scheduled for, "cpu" or "gpu".
  static StatusOr<Backend*> Make(const Api& api, std::vector<FoundDevice> devices,
                                 std::string_view schedule) {
    std::unique_ptr<SyclBackend> backend(new SyclBackend(api, std::move(devices), schedule));
    TRIPONT_RETURN_IF_ERROR(backend->Open());
    return static_cast<Backend*>(backend.release());
  }

  std::string_view target() const override { return "sycl"; }

  std::map<std::string, std::string> compiler_options() const override {
    std::string description = schedule_;
    if (AllHave(&DeviceInfo::fp16)) description += ",fp16";
    if (AllHave(&DeviceInfo::fp64)) description += ",fp64";
    if (schedule_ == "gpu" && HaveSubGroups()) description += ",sub-groups";
    return {{"target", "sycl"}, {"device", description}};
  }

  int num_devices() const override { return static_cast<int>(devices_.size()); }

  StatusOr<std::unique_ptr<DeviceQueue>> MakeQueue(int index) override {
    const size_t number = static_cast<size_t>(index) % devices_.size();
    const FoundDevice& device = devices_[number];
    TRIPONT_ASSIGN_OR_RETURN(
        std::unique_ptr<Queue> queue,
        Queue::Make(api_, context_, device.handle.get(), static_cast<int>(number), device.info));
    return std::unique_ptr<DeviceQueue>(std::move(queue));
  }

  StatusOr<std::unique_ptr<DeviceProgram>> Load(const Artifact& artifact) override {
    if (artifact.cpu != schedule_) {
      return FailedPrecondition("the artifact was compiled for a SYCL ", artifact.cpu, ", but ",
                                devices_[0].info.name, " is a ", schedule_,
                                "; compile the program again");
    }
    for (const std::string& feature : artifact.cpu_features) {
      const bool has = (feature == "fp64" && AllHave(&DeviceInfo::fp64)) ||
                       (feature == "fp16" && AllHave(&DeviceInfo::fp16)) ||
                       (feature == "sub-groups" && HaveSubGroups());
      if (!has) {
        return FailedPrecondition("the artifact was compiled for a device with ", feature,
                                  ", which ", devices_[0].info.name,
                                  " does not have; compile the program again");
      }
    }
    TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<Program> program,
                             Program::Build(api_, context_, Handles(), artifact));
    return std::unique_ptr<DeviceProgram>(std::move(program));
  }

  StatusOr<std::unique_ptr<UserKernel>> LoadUserKernel(std::string_view format,
                                                       std::string_view module,
                                                       const std::string& name) override {
    if (format != kKernelFormat) return Backend::LoadUserKernel(format, module, name);
    TRIPONT_ASSIGN_OR_RETURN(std::unique_ptr<SpirvKernel> kernel,
                             SpirvKernel::Build(api_, context_, Handles(), module, name));
    return std::unique_ptr<UserKernel>(std::move(kernel));
  }

  MemorySource* memory_source(MemoryUse use, int device) override {
    if (use == MemoryUse::kHostArrays && host_memory_ != nullptr) return host_memory_.get();
    if (use == MemoryUse::kTemporaries && !device_memory_.empty())
      return device_memory_[static_cast<size_t>(device) % device_memory_.size()].get();
    return shared_memory_.get();
  }

  const onednn::Port* onednn() const override { return onednn_.get(); }

 private:
  SyclBackend(const Api& api, std::vector<FoundDevice> devices, std::string_view schedule)
      : api_(api), devices_(std::move(devices)), schedule_(schedule) {}

  std::vector<DeviceRef> Handles() const {
    std::vector<DeviceRef> handles;
    handles.reserve(devices_.size());
    for (const FoundDevice& device : devices_) handles.push_back(device.handle.get());
    return handles;
  }

  // One context for all devices: what is allocated in it can be used by each.
  Status Open() {
    std::vector<DeviceRef> handles = Handles();
    const DeviceVectorRef list = api_.DeviceVector_CreateFromArray(handles.size(), handles.data());
    if (list != nullptr) {
      context_ = api_.Context_CreateFromDevices(list, nullptr, 0);
      api_.DeviceVector_Delete(list);
    }
    if (context_ == nullptr)
      return Unavailable("cannot make a SYCL context for ", devices_[0].info.name);
    for (size_t i = 0; i < handles.size(); ++i) {
      loading_queues_.emplace_back(api_.Queue_Create(context_, handles[i], nullptr, kInOrder));
      if (!loading_queues_.back())
        return Unavailable("cannot make a SYCL queue for ", devices_[i].info.name);
    }
    TRIPONT_RETURN_IF_ERROR(OpenMemory());
    std::vector<NativeDevice> native;
    native.reserve(handles.size());
    for (size_t i = 0; i < handles.size(); ++i)
      native.push_back({handles[i], context_, loading_queues_[i].get()});
    onednn_ = std::make_unique<OnednnPort>(api_.library_folder, std::move(native),
                                           memory_source(MemoryUse::kArrays, 0));
    return OkStatus();
  }

  Status OpenMemory() {
    // A GPU's own memory is faster for it than the process's, even where it can access that.
    if (schedule_ == "cpu" && AllHave(&DeviceInfo::usm_system)) return OkStatus();
    if (!AllHave(&DeviceInfo::usm_shared)) {
      return Unimplemented(devices_[0].info.name,
                           " has no memory that it shares with the host (USM shared allocations)");
    }
    const QueueRef queue = loading_queues_[0].get();
    shared_memory_ = std::make_unique<UsmMemory>(api_, api_.aligned_alloc_shared, queue);
    if (AllHave(&DeviceInfo::usm_host))
      host_memory_ = std::make_unique<UsmMemory>(api_, api_.aligned_alloc_host, queue);
    if (AllHave(&DeviceInfo::usm_device)) {
      for (const Handle<QueueRef>& of_device : loading_queues_) {
        device_memory_.push_back(
            std::make_unique<UsmMemory>(api_, api_.aligned_alloc_device, of_device.get()));
      }
    }
    return OkStatus();
  }

  bool AllHave(bool DeviceInfo::* feature) const {
    return std::all_of(devices_.begin(), devices_.end(),
                       [&](const FoundDevice& device) { return device.info.*feature; });
  }

  bool HaveSubGroups() const {
    return std::all_of(devices_.begin(), devices_.end(), [](const FoundDevice& device) {
      const auto& sizes = device.info.sub_group_sizes;
      return std::find(sizes.begin(), sizes.end(), kSubGroup) != sizes.end();
    });
  }

  const Api& api_;
  const std::vector<FoundDevice> devices_;
  const std::string schedule_;
  ContextRef context_ = nullptr;                  // as long as the process
  std::vector<Handle<QueueRef>> loading_queues_;  // one a device
  // Null or empty if devices lack that kind of memory, or can access all memory.
  std::unique_ptr<UsmMemory> shared_memory_;
  std::unique_ptr<UsmMemory> host_memory_;
  std::vector<std::unique_ptr<UsmMemory>> device_memory_;  // one a device
  std::unique_ptr<OnednnPort> onednn_;
};

// What the user wrote to choose so.
std::string Asked(std::string_view choice) {
  return choice.empty() ? "sycl" : StrCat("sycl:", choice);
}

DeviceFacts Facts(const DeviceInfo& info) {
  DeviceFacts facts{info.Description(), {}};
  const auto add = [&](std::string name, DeviceFacts::Value value) {
    facts.values.emplace_back(std::move(name), std::move(value));
  };
  add("name", info.name);
  add("kind", info.kind);
  add("backend", info.backend);
  add("vendor", info.vendor);
  add("driver", info.driver_version);
  add("memory", info.memory);
  add("units", info.compute_units);
  add("fp64", info.fp64);
  add("fp16", info.fp16);
  add("sub-groups", info.sub_group_sizes);
  std::vector<std::string> usm;
  if (info.usm_device) usm.emplace_back("device");
  if (info.usm_host) usm.emplace_back("host");
  if (info.usm_shared) usm.emplace_back("shared");
  if (info.usm_system) usm.emplace_back("system");
  add("USM", StrJoin(usm, " "));
  return facts;
}

// What ChooseDevices goes by.
DeviceInfo InfoOf(const DeviceFacts& facts) {
  DeviceInfo info;
  for (const auto& [name, value] : facts.values) {
    const auto* const text = std::get_if<std::string>(&value);
    if (text == nullptr) continue;
    if (name == "name") info.name = *text;
    if (name == "kind") info.kind = *text;
    if (name == "backend") info.backend = *text;
  }
  return info;
}

}  // namespace

StatusOr<std::vector<DeviceInfo>> ListDevices(const std::string& python) {
  TRIPONT_ASSIGN_OR_RETURN(const Api* const api, sycl::Load(python));
  std::vector<DeviceInfo> infos;
  for (FoundDevice& device : FindDevices(*api)) infos.push_back(std::move(device.info));
  return infos;
}

bool MayHaveGpu(const std::string& python) {
  std::error_code error;
  bool node = std::filesystem::exists("/dev/dxg", error);  // Windows' subsystem for Linux
  for (const auto& entry : std::filesystem::directory_iterator("/dev/dri", error)) {
    node = node || entry.path().filename().string().rfind("renderD", 0) == 0;
  }
  return node && IsInstalled(python);
}

StatusOr<std::vector<size_t>> ChooseDevices(std::string_view choice,
                                            const std::vector<DeviceInfo>& devices) {
  std::string_view wanted = choice;
  if (wanted.empty()) {
    const bool has_gpu = std::any_of(devices.begin(), devices.end(),
                                     [](const DeviceInfo& device) { return device.kind == "gpu"; });
    wanted = has_gpu ? "gpu" : "cpu";
  }
  if (wanted == "cpu-as-gpu") wanted = "cpu";
  std::vector<size_t> chosen;
  std::vector<std::string> names;
  for (size_t i = 0; i < devices.size(); ++i) {
    names.push_back(devices[i].Description());
    if (devices[i].kind != wanted) continue;
    if (!chosen.empty() && devices[i].backend != devices[chosen[0]].backend) continue;
    chosen.push_back(i);
  }
  if (!chosen.empty()) return chosen;
  return NotFound(
      "TRIPONT_DEVICE=", Asked(choice), ": there is no SYCL ", wanted, "; the SYCL runtime has ",
      names.empty() ? "no device (is intel-opencl-rt installed, or the driver of the GPU? "
                      "ONEAPI_DEVICE_SELECTOR and OCL_ICD_FILENAMES hide devices too)"
                    : StrJoin(names, ", "));
}

StatusOr<Backend*> MakeBackend(std::string_view choice, const std::string& python) {
  StatusOr<const Api*> api = sycl::Load(python);
  if (!api.ok()) {
    return api.status().WithPrefix(
        StrCat("TRIPONT_DEVICE=", Asked(choice), " (TRIPONT_DEVICE=host needs no SYCL runtime)"));
  }
  std::vector<FoundDevice> found = FindDevices(**api);
  std::vector<DeviceInfo> infos;
  infos.reserve(found.size());
  for (const FoundDevice& device : found) infos.push_back(device.info);
  TRIPONT_ASSIGN_OR_RETURN(const std::vector<size_t> numbers, ChooseDevices(choice, infos));
  std::vector<FoundDevice> chosen;
  chosen.reserve(numbers.size());
  for (const size_t number : numbers) chosen.push_back(std::move(found[number]));
  const bool like_cpu = chosen[0].info.kind == "cpu" && choice != "cpu-as-gpu";
  return SyclBackend::Make(**api, std::move(chosen), like_cpu ? "cpu" : "gpu");
}

const BackendRegistration& Registration() {
  static const auto* const registration = [] {
    auto* made = new BackendRegistration;
    made->name = "sycl";
    made->title = "SYCL";
    made->choices = {"cpu", "gpu"};
    made->hidden_choices = {"cpu-as-gpu"};
    made->device_option = "device";
    made->old_device_option = "sycl_device";
    made->kernel_format = kKernelFormat;
    made->install = "pip install 'tripont[sycl]' (dpctl has packages for Python up to 3.14)";
    made->make = &MakeBackend;
    made->default_choice = "gpu";
    made->may_be_default = &MayHaveGpu;
    made->list = [](const std::string& python) -> StatusOr<std::vector<DeviceFacts>> {
      TRIPONT_ASSIGN_OR_RETURN(const std::vector<DeviceInfo> devices, ListDevices(python));
      std::vector<DeviceFacts> facts;
      facts.reserve(devices.size());
      for (const DeviceInfo& device : devices) facts.push_back(Facts(device));
      return facts;
    };
    made->choose = [](std::string_view choice, std::span<const DeviceFacts> devices) {
      std::vector<DeviceInfo> infos;
      for (const DeviceFacts& device : devices) infos.push_back(InfoOf(device));
      return ChooseDevices(choice, infos);
    };
    return made;
  }();
  return *registration;
}

}  // namespace tripont::sycl
