#include "nextpluggable/devices.h"

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "nextpluggable/adapter.h"
#include "nextpluggable/pjrt.h"
#include "tensorflow/core/common_runtime/next_pluggable_device/next_pluggable_device_factory.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/device_attributes.pb.h"
#include "tensorflow/core/framework/device_factory.h"
#include "tensorflow/core/framework/op_kernel.h"

namespace tripont::tensorflow {
namespace {

namespace tf = ::tensorflow;

// TensorFlow's allocator of a device, which gives places for buffers, with the statistics of the
// core's, which gives their memory.
class DeviceAllocator final : public tf::Allocator {
 public:
  DeviceAllocator(tf::Allocator* places, int ordinal) : places_(places), ordinal_(ordinal) {}

  std::string Name() override { return places_->Name(); }
  void* AllocateRaw(size_t alignment, size_t size) override {
    return places_->AllocateRaw(alignment, size);
  }
  void* AllocateRaw(size_t alignment, size_t size,
                    const tf::AllocationAttributes& attributes) override {
    return places_->AllocateRaw(alignment, size, attributes);
  }
  void DeallocateRaw(void* place) override { places_->DeallocateRaw(place); }
  void DeallocateRaw(void* place, size_t alignment, size_t size) override {
    places_->DeallocateRaw(place, alignment, size);
  }
  bool TracksAllocationSizes() const override { return places_->TracksAllocationSizes(); }
  bool AllocatesOpaqueHandle() const override { return places_->AllocatesOpaqueHandle(); }
  size_t RequestedSize(const void* place) const override { return places_->RequestedSize(place); }
  size_t AllocatedSize(const void* place) const override { return places_->AllocatedSize(place); }
  int64_t AllocationId(const void* place) const override { return places_->AllocationId(place); }
  size_t AllocatedSizeSlow(const void* place) const override {
    return places_->AllocatedSizeSlow(place);
  }
  tf::AllocatorMemoryType GetMemoryType() const override { return places_->GetMemoryType(); }

  std::optional<tf::AllocatorStats> GetStats() override {
    auto get = PjrtArguments<PJRT_Device_MemoryStats_Args>();
    get.device = TheDevice(ordinal_);
    if (get.device == nullptr) return std::nullopt;
    std::string ignored;
    if (PJRT_Error* error = Pjrt()->PJRT_Device_MemoryStats(&get)) {
      TakeError(error, &ignored);
      return std::nullopt;
    }
    tf::AllocatorStats stats;
    stats.bytes_in_use = get.bytes_in_use;
    stats.num_allocs = get.num_allocs;
    stats.peak_bytes_in_use = get.peak_bytes_in_use;
    stats.largest_alloc_size = get.largest_alloc_size;
    if (get.bytes_limit_is_set) stats.bytes_limit = get.bytes_limit;
    stats.bytes_reserved = get.bytes_reserved;
    return stats;
  }
  bool ClearStats() override {
    std::string ignored;
    PJRT_Error* const error = Core().reset_peak_memory(TheDevice(ordinal_));
    if (error != nullptr) TakeError(error, &ignored);
    return error == nullptr;
  }

 private:
  tf::Allocator* const places_;
  const int ordinal_;
};

// What stays: TensorFlow's device and the allocator.
struct Permanent {
  std::unique_ptr<tf::Device> device;
  std::unique_ptr<DeviceAllocator> allocator;
};

// The permanent device of that number, which `made` becomes if there is none yet.
Permanent& Keep(int ordinal, std::unique_ptr<tf::Device> made) {
  static auto* const mutex = new std::mutex();
  static auto* const devices = new std::map<int, Permanent>();
  const std::lock_guard<std::mutex> lock(*mutex);
  Permanent& permanent = (*devices)[ordinal];
  if (permanent.device == nullptr) {
    permanent.device = std::move(made);
    permanent.allocator = std::make_unique<DeviceAllocator>(
        permanent.device->GetAllocator(tf::AllocatorAttributes()), ordinal);
  }
  return permanent;
}

// The device of one context or session.
class SharedDevice final : public tf::Device {
 public:
  SharedDevice(const Permanent& permanent, const tf::DeviceAttributes& attributes)
      : tf::Device(permanent.device->env(), attributes),
        device_(permanent.device.get()),
        allocator_(permanent.allocator.get()) {}

  const DeviceBase* UnderlyingDevice() const override { return device_->UnderlyingDevice(); }
  DeviceBase* UnderlyingDevice() override { return device_->UnderlyingDevice(); }
  const CpuWorkerThreads* tensorflow_cpu_worker_threads() const override {
    return device_->tensorflow_cpu_worker_threads();
  }
  const AcceleratorDeviceInfo* tensorflow_accelerator_device_info() const override {
    return device_->tensorflow_accelerator_device_info();
  }
  tf::Allocator* GetAllocator(tf::AllocatorAttributes attributes) override {
    return attributes.on_host() ? device_->GetAllocator(attributes) : allocator_;
  }
  bool has_eigen_cpu_device() const override { return device_->has_eigen_cpu_device(); }
  const Eigen::ThreadPoolDevice* eigen_cpu_device() override { return device_->eigen_cpu_device(); }
  tsl::thread::ThreadPool* tensorflow_device_thread_pool() override {
    return device_->tensorflow_device_thread_pool();
  }
  absl::Status MakeTensorFromProto(const tf::TensorProto& proto,
                                   const tf::AllocatorAttributes attributes,
                                   tf::Tensor* tensor) override {
    return device_->MakeTensorFromProto(proto, attributes, tensor);
  }
  void CopyTensorInSameDevice(const tf::Tensor* input, tf::Tensor* output,
                              const tf::DeviceContext* context, tf::StatusCallback done) override {
    device_->CopyTensorInSameDevice(input, output, context, std::move(done));
  }
  void Compute(tf::OpKernel* kernel, tf::OpKernelContext* context) override {
    device_->Compute(kernel, context);
  }
  void ComputeAsync(tf::AsyncOpKernel* kernel, tf::OpKernelContext* context,
                    tf::AsyncOpKernel::DoneCallback done) override {
    device_->ComputeAsync(kernel, context, std::move(done));
  }
  absl::Status Sync() override { return device_->Sync(); }
  absl::Status MaybeRewriteGraph(std::unique_ptr<tf::Graph>* graph) override {
    return device_->MaybeRewriteGraph(graph);
  }
  absl::Status TryGetDeviceContext(tf::DeviceContext** context) override {
    return device_->TryGetDeviceContext(context);
  }

 private:
  tf::Device* const device_;
  tf::Allocator* const allocator_;
};

// XlaOpRegistry asks the factory of a pluggable device for the name of its compilation device, and
// takes it for a NextPluggableDeviceFactory.
class Factory final : public tf::NextPluggableDeviceFactory {
 public:
  Factory() : tf::NextPluggableDeviceFactory(kDeviceType, kCompilationDevice) {}

  absl::Status ListPhysicalDevices(std::vector<std::string>* devices) override {
    return Original().ListPhysicalDevices(devices);
  }

  // TensorFlow's factory decides which devices a session gets, and makes them anew each time.
  absl::Status CreateDevices(const tf::SessionOptions& options, const std::string& name_prefix,
                             std::vector<std::unique_ptr<tf::Device>>* devices) override {
    std::vector<std::unique_ptr<tf::Device>> made;
    TF_RETURN_IF_ERROR(Original().CreateDevices(options, name_prefix, &made));
    for (std::unique_ptr<tf::Device>& device : made) {
      const tf::DeviceAttributes attributes = device->attributes();
      const int ordinal = device->parsed_name().id;
      devices->push_back(
          std::make_unique<SharedDevice>(Keep(ordinal, std::move(device)), attributes));
    }
    return absl::OkStatus();
  }

  // Made when TensorFlow has the table of device functions, which it reads.
  static tf::NextPluggableDeviceFactory& Original() {
    static auto* const original =
        new tf::NextPluggableDeviceFactory(kDeviceType, kCompilationDevice);
    return *original;
  }
};

// The factory of a type that has no devices. XlaOpRegistry takes it, too, for a
// NextPluggableDeviceFactory.
class FactoryWithoutDevices final : public tf::NextPluggableDeviceFactory {
 public:
  using tf::NextPluggableDeviceFactory::NextPluggableDeviceFactory;

  absl::Status ListPhysicalDevices(std::vector<std::string>*) override { return absl::OkStatus(); }
  absl::Status CreateDevices(const tf::SessionOptions&, const std::string&,
                             std::vector<std::unique_ptr<tf::Device>>*) override {
    return absl::OkStatus();
  }
};

// TensorFlow registers its own factory with the plugin's priority, which is 0, and keeps the one of
// highest priority. The CPU's is 70.
void Register(const std::string& type, std::unique_ptr<tf::DeviceFactory> factory) {
  tf::DeviceFactory::Register(type, std::move(factory), /*priority=*/1,
                              /*is_pluggable_device=*/true);
}

}  // namespace

void RegisterDeviceFactory() { Register(kDeviceType, std::make_unique<Factory>()); }

bool HasDeviceFactory() { return tf::DeviceFactory::GetFactory(kDeviceType) != nullptr; }

void ReadDeviceFunctions() { Factory::Original(); }

void RegisterTypeWithoutDevices(const char* type) {
  Register(type, std::make_unique<FactoryWithoutDevices>(type, kCompilationDevice));
}

}  // namespace tripont::tensorflow
