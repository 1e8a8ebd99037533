#include "core/runtime/backends/sycl/onednn.h"

#include <dlfcn.h>

#include <memory>

#include "core/runtime/backends/sycl/queue.h"

namespace tripont::sycl {
namespace {

using onednn::Check;
using onednn::ConstMemoryDesc;
using onednn::Engine;
using onednn::Memory;
using onednn::StatusCode;
using onednn::Stream;

constexpr unsigned kRuntimeSycl = 512;
enum class MemoryModel : int { kUsm = 0 };

// Functions that only the build for SYCL has. The void* are sycl::device, sycl::context and
// sycl::queue. X(member, symbol, return type, parameters)
#define TRIPONT_ONEDNN_SYCL_FUNCTIONS(X)                                                    \
  X(engine_create, "dnnl_sycl_interop_engine_create", StatusCode, (Engine*, void*, void*))  \
  X(stream_create, "dnnl_sycl_interop_stream_create", StatusCode, (Stream*, Engine, void*)) \
  X(memory_create, "dnnl_sycl_interop_memory_create", StatusCode,                           \
    (Memory*, ConstMemoryDesc, Engine, MemoryModel, void*))                                 \
  X(stream_wait, "dnnl_stream_wait", StatusCode, (Stream))

struct SyclApi : onednn::Api {
  struct Functions {
#define TRIPONT_ONEDNN_MEMBER(member, symbol, result, parameters) \
  result(*member) parameters = nullptr;
    TRIPONT_ONEDNN_SYCL_FUNCTIONS(TRIPONT_ONEDNN_MEMBER)
#undef TRIPONT_ONEDNN_MEMBER
  };
  Functions sycl;
};

const SyclApi::Functions& SyclOf(const onednn::Api& api) {
  return static_cast<const SyclApi&>(api).sycl;
}

}  // namespace

StatusOr<onednn::Apis> OnednnPort::Attach(const onednn::Api& library) const {
  const unsigned runtime = library.version()->cpu_runtime;
  if (runtime != kRuntimeSycl) {
    return Unavailable(library.path, " is a oneDNN without SYCL (its CPU runtime is number ",
                       runtime,
                       "), and this process has SYCL devices; a process uses one oneDNN. The one "
                       "for SYCL: pip install onednn");
  }
  SyclApi::Functions functions;
#define TRIPONT_ONEDNN_RESOLVE(member, symbol, result, parameters)                                \
  functions.member = reinterpret_cast<decltype(functions.member)>(dlsym(library.handle, symbol)); \
  if (functions.member == nullptr) return Unavailable(library.path, " has no function " symbol);
  TRIPONT_ONEDNN_SYCL_FUNCTIONS(TRIPONT_ONEDNN_RESOLVE)
#undef TRIPONT_ONEDNN_RESOLVE
  std::vector<std::unique_ptr<SyclApi>> apis;
  for (const NativeDevice& device : devices_) {
    apis.push_back(std::make_unique<SyclApi>(SyclApi{library, functions}));
    SyclApi& api = *apis.back();
    api.port = this;
    TRIPONT_RETURN_IF_ERROR(
        Check(functions.engine_create(&api.engine, device.device, device.context),
              "creating an engine for a SYCL device"));
    TRIPONT_RETURN_IF_ERROR(Check(functions.stream_create(&api.stream, api.engine, device.queue),
                                  "creating a stream in a SYCL queue"));
  }
  onednn::Apis result;
  for (std::unique_ptr<SyclApi>& api : apis) result.push_back(api.release());
  return result;  // as long as the process
}

StatusCode OnednnPort::MakeMemory(const onednn::Api& api, Memory* memory,
                                  ConstMemoryDesc layout) const {
  return SyclOf(api).memory_create(memory, layout, api.engine, MemoryModel::kUsm, nullptr);
}

StatusOr<Stream> OnednnPort::StreamOf(const onednn::Api& api, DeviceQueue& queue) const {
  const std::lock_guard lock(mutex_);
  Stream& stream = streams_[&queue];  // queues live as long as the process
  if (stream == nullptr) {
    TRIPONT_RETURN_IF_ERROR(
        Check(SyclOf(api).stream_create(&stream, api.engine, static_cast<Queue&>(queue).handle()),
              "creating a stream in a SYCL queue"));
  }
  return stream;
}

Status OnednnPort::FinishLoading(const onednn::Api& api) const {
  return Check(SyclOf(api).stream_wait(api.stream), "packing weights");
}

}  // namespace tripont::sycl
