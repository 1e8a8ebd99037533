// oneDNN in the queues of SYCL devices: its build for SYCL (the wheel `onednn`).
#ifndef TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_ONEDNN_H_
#define TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_ONEDNN_H_

#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "core/runtime/backend.h"
#include "core/runtime/library/onednn_api.h"

namespace tripont::sycl {

// Addresses of objects of SYCL's C++ interface: sycl::device, sycl::context, sycl::queue. dpctl's
// handles are such. Valid as long as the process.
struct NativeDevice {
  void* device = nullptr;
  void* context = nullptr;
  void* queue = nullptr;  // in order, of nobody in particular: for what is done when programs load
};

class OnednnPort final : public onednn::Port {
 public:
  // `folder`: where the library lies. `memory`: where packed weights are kept; null: in memory of
  // the system.
  OnednnPort(std::string folder, std::vector<NativeDevice> devices, MemorySource* memory)
      : folder_(std::move(folder)), devices_(std::move(devices)), memory_(memory) {}

  std::filesystem::path Folder() const override { return folder_; }
  StatusOr<onednn::Apis> Attach(const onednn::Api& library) const override;
  bool UsesQueue() const override { return true; }
  onednn::StatusCode MakeMemory(const onednn::Api& api, onednn::Memory* memory,
                                onednn::ConstMemoryDesc layout) const override;
  // Made at a queue's first call.
  StatusOr<onednn::Stream> StreamOf(const onednn::Api& api, DeviceQueue& queue) const override;
  Status FinishLoading(const onednn::Api& api) const override;
  MemorySource* memory_source() const override { return memory_; }

 private:
  const std::string folder_;
  const std::vector<NativeDevice> devices_;
  MemorySource* const memory_;
  mutable std::mutex mutex_;
  mutable std::map<const DeviceQueue*, onednn::Stream> streams_;  // guarded by mutex_
};

}  // namespace tripont::sycl

#endif  // TRIPONT_CORE_RUNTIME_BACKENDS_SYCL_ONEDNN_H_
