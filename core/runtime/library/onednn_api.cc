#include "core/runtime/library/onednn_api.h"

#include <dlfcn.h>
#include <tbb/version.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "core/runtime/backend.h"
#include "core/runtime/client.h"
#include "core/runtime/cpu_info.h"
#include "core/runtime/logging.h"
#include "core/runtime/shared_library.h"

namespace tripont::onednn {
namespace {

namespace fs = std::filesystem;

constexpr char kLibraryName[] = "libdnnl.so.3";
// What the library needs besides oneTBB. It names no run path, so they are opened first, by full
// path; the dynamic linker then finds them by their names.
constexpr const char* kIntelRuntimes[] = {"libintlc.so.5", "libimf.so", "libsvml.so"};

using Apis = std::vector<const Api*>;

std::atomic<const Apis*> loaded{nullptr};
std::atomic<bool> failed{false};  // Load() has

// TRIPONT_ONEDNN_PATH, or empty.
fs::path ChosenPath() {
  const char* const chosen = std::getenv("TRIPONT_ONEDNN_PATH");
  if (chosen == nullptr) return {};
  std::error_code error;
  fs::path path(chosen);
  return fs::is_directory(path, error) ? path / kLibraryName : path;
}

// Opens the Intel runtimes that lie next to oneDNN, or in the environment's folder of libraries,
// where oneTBB lies. What is not there may still be found by the dynamic linker.
void OpenIntelRuntimes(const fs::path& folder) {
  const fs::path libraries = FolderOf(reinterpret_cast<const void*>(&TBB_runtime_version));
  for (const char* name : kIntelRuntimes) {
    for (const fs::path& path : {folder / name, libraries / name}) {
      std::error_code error;
      if (!fs::exists(path, error)) continue;
      dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      break;
    }
  }
}

// The largest of oneDNN's sets of instructions that the CPU has.
CpuIsa IsaOfCpu() {
  struct Level {
    CpuIsa isa;
    std::initializer_list<std::string_view> features;  // besides those of the level before
  };
  static const Level kClient[] = {
      {kSse41, {"sse4.1"}},
      {kAvx, {"avx"}},
      {kAvx2, {"avx2", "fma"}},
      {kAvx2Vnni, {"avxvnni"}},
  };
  static const Level kServer[] = {
      {kAvx512Core, {"avx512f", "avx512bw", "avx512dq", "avx512vl"}},
      {kAvx512CoreVnni, {"avx512vnni"}},
      {kAvx512CoreBf16, {"avx512bf16"}},
      {kAvx512CoreFp16, {"avx512fp16", "avxvnni"}},
      {kAvx512CoreAmx, {"amx-tile", "amx-int8", "amx-bf16"}},
  };
  CpuIsa isa = kSse41;
  for (const std::span<const Level> levels :
       {std::span<const Level>(kClient), std::span<const Level>(kServer)}) {
    for (const Level& level : levels) {
      if (!std::all_of(level.features.begin(), level.features.end(), CpuHasFeature)) break;
      isa = level.isa;
    }
  }
  return isa;
}

// For errors of operations that oneDNN does not do: the setting that may be why.
std::string AboutTheCap() {
  const char* const cap = std::getenv("ONEDNN_MAX_CPU_ISA");
  if (cap == nullptr || *cap == '\0') return "";
  return StrCat("; ONEDNN_MAX_CPU_ISA=", cap,
                " keeps oneDNN from instructions that the program "
                "was compiled for: unset it, or set TRIPONT_CPU, which the compiler heeds too");
}

// Opens the library and checks that it is version 3. Its engine is still to be made.
StatusOr<Api> Open(const fs::path& path) {
  OpenIntelRuntimes(path.parent_path());
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::string reason = dlerror();
    if (reason.find("libimf") != std::string::npos ||
        reason.find("libintlc") != std::string::npos) {
      reason += " (it needs the Intel compiler's runtime: pip install intel-cmplr-lib-rt)";
    }
    return Unavailable("cannot load ", path.string(), ": ", reason);
  }
  Api api;
  api.path = path.string();
#define TRIPONT_ONEDNN_RESOLVE(member, symbol, result, parameters)            \
  api.member = reinterpret_cast<decltype(api.member)>(dlsym(handle, symbol)); \
  if (api.member == nullptr) return Unavailable(path.string(), " has no function " symbol);
  TRIPONT_ONEDNN_FUNCTIONS(TRIPONT_ONEDNN_RESOLVE)
  const Version* version = api.version();
  if (version->major != 3) {
    return Unavailable(path.string(), " is oneDNN ", version->major, ".", version->minor,
                       ", but version 3 is needed");
  }
  api.is_sycl = version->cpu_runtime == kRuntimeSycl;
  if (api.is_sycl) {
    TRIPONT_ONEDNN_SYCL_FUNCTIONS(TRIPONT_ONEDNN_RESOLVE)
  }
#undef TRIPONT_ONEDNN_RESOLVE
  if (!ActingCpu().empty() && api.set_max_cpu_isa(IsaOfCpu()) != StatusCode::kSuccess) {
    TRIPONT_LOG(kWarning, "oneDNN at ", api.path, " does not keep to the instructions of ",
                ActingCpu(), " (TRIPONT_CPU)");
  }
  TRIPONT_LOG(kDebug, "oneDNN ", version->major, ".", version->minor, ".", version->patch,
              api.is_sycl ? " for SYCL" : "", " at ", api.path);
  return api;
}

StatusOr<Apis> OpenForHost(const fs::path& path) {
  TRIPONT_ASSIGN_OR_RETURN(Api api, Open(path));
  if (api.version()->cpu_runtime != kRuntimeTbb) {
    return Unavailable(path.string(), " is a oneDNN ",
                       api.is_sycl ? "for SYCL queues" : "without oneTBB threads",
                       " (its CPU runtime is number ", api.version()->cpu_runtime,
                       "), and this process's kernels run on the host; a process uses one oneDNN. "
                       "The package brings one for oneTBB");
  }
  TRIPONT_RETURN_IF_ERROR(
      Check(api.engine_create(&api.engine, EngineKind::kCpu, 0), "creating the CPU engine"));
  TRIPONT_RETURN_IF_ERROR(
      Check(api.stream_create(&api.stream, api.engine, kStreamInOrder), "creating the CPU stream"));
  return Apis{new Api(api)};  // as long as the process
}

StatusOr<Apis> OpenForSycl(const fs::path& path, const Backend& backend) {
  TRIPONT_ASSIGN_OR_RETURN(Api api, Open(path));
  if (!api.is_sycl) {
    return Unavailable(path.string(), " is a oneDNN without SYCL (its CPU runtime is number ",
                       api.version()->cpu_runtime,
                       "), and this process has SYCL devices; a process uses one oneDNN. The one "
                       "for SYCL: pip install onednn");
  }
  std::vector<std::unique_ptr<Api>> apis;
  for (int i = 0; i < backend.num_devices(); ++i) {
    const NativeDevice device = backend.native_device(i);
    apis.push_back(std::make_unique<Api>(api));
    TRIPONT_RETURN_IF_ERROR(
        Check(api.sycl_engine_create(&apis.back()->engine, device.device, device.context),
              "creating an engine for a SYCL device"));
    TRIPONT_RETURN_IF_ERROR(
        Check(api.sycl_stream_create(&apis.back()->stream, apis.back()->engine, device.queue),
              "creating a stream in a SYCL queue"));
  }
  Apis result;
  for (std::unique_ptr<Api>& one : apis) result.push_back(one.release());
  return result;  // as long as the process
}

// The package's own.
fs::path PackagePath() {
  return FolderOf(reinterpret_cast<const void*>(&LoadedOrNull)) / kLibraryName;
}

const Backend* CurrentBackend() {
  const Core* const core = Core::GetIfCreated();
  return core != nullptr ? core->backend() : nullptr;
}

StatusOr<Apis> FindAndOpen() {
  const Backend* const backend = CurrentBackend();
  const fs::path chosen = ChosenPath();
  std::error_code error;
  if (backend != nullptr && !chosen.empty() && fs::exists(chosen, error))
    return OpenForSycl(chosen, *backend);
  if (backend != nullptr && chosen.empty()) {
    const fs::path path = fs::path(backend->library_folder()) / kLibraryName;
    StatusOr<Apis> apis = OpenForSycl(path, *backend);
    if (apis.ok()) return apis;
    TRIPONT_LOG(kInfo,
                "matrix products and convolutions run on the host: ", apis.status().message());
  }
  const fs::path path = !chosen.empty() ? chosen : PackagePath();
  if (fs::exists(path, error)) return OpenForHost(path);
  return Unavailable("oneDNN is missing: there is no ", path.string(),
                     "; install tripont again, or set TRIPONT_ONEDNN_PATH to a ", kLibraryName);
}

}  // namespace

StatusOr<const Apis*> Load() {
  if (const Apis* apis = loaded.load(std::memory_order_acquire)) return apis;
  // Leaked on purpose: executables may be destroyed after static destructors ran.
  static auto* const mutex = new std::mutex;
  static auto* const failure = new Status;
  std::lock_guard lock(*mutex);
  if (const Apis* apis = loaded.load(std::memory_order_acquire)) return apis;
  if (!failure->ok()) return *failure;
  StatusOr<Apis> apis = FindAndOpen();
  if (!apis.ok()) {
    *failure = apis.status();
    failed.store(true, std::memory_order_release);
    return *failure;
  }
  loaded.store(new Apis(std::move(*apis)), std::memory_order_release);
  return loaded.load(std::memory_order_relaxed);
}

bool IsUsable() {
  if (loaded.load(std::memory_order_acquire) != nullptr) return true;
  fs::path path = ChosenPath();
  const Backend* const backend = path.empty() ? CurrentBackend() : nullptr;
  if (path.empty()) path = PackagePath();
  std::error_code error;
  const bool usable = !failed.load(std::memory_order_acquire) &&
                      (fs::exists(path, error) ||
                       (backend != nullptr &&
                        fs::exists(fs::path(backend->library_folder()) / kLibraryName, error)));
#if defined(__x86_64__)  // elsewhere there is none, and nothing to be said
  if (!usable) {
    static std::once_flag* const once = new std::once_flag;
    std::call_once(*once, [] {
      TRIPONT_LOG(kWarning, "matrix products and convolutions are computed without oneDNN, which ",
                  "may be slower: ", Load().status().message());
    });
  }
#endif
  return usable;
}

Status CheckInstructions(const Api& api, PrimitiveType type) {
  if (type != PrimitiveType::kS8 && type != PrimitiveType::kU8) return OkStatus();
  if ((api.get_effective_cpu_isa() & kVnniBits) != 0) return OkStatus();
  return FailedPrecondition(
      "oneDNN has no exact products of 8-bit integers without VNNI instructions, which this "
      "program ",
      "was compiled for", AboutTheCap());
}

StatusOr<Stream> StreamOf(const Api& api, DeviceQueue& queue) {
  static auto* const mutex = new std::mutex;
  static auto* const streams = new std::map<const DeviceQueue*, Stream>;  // queues live for ever
  const std::lock_guard lock(*mutex);
  Stream& stream = (*streams)[&queue];
  if (stream == nullptr) {
    TRIPONT_RETURN_IF_ERROR(Check(api.sycl_stream_create(&stream, api.engine, queue.native()),
                                  "creating a stream in a SYCL queue"));
  }
  return stream;
}

const Api* LoadedOrNull() {
  const Apis* const apis = loaded.load(std::memory_order_acquire);
  return apis == nullptr ? nullptr : apis->front();
}

Status Check(StatusCode code, const char* what) {
  switch (code) {
    case StatusCode::kSuccess:
      return OkStatus();
    case StatusCode::kOutOfMemory:
      return ResourceExhausted("oneDNN, ", what, ": out of memory");
    case StatusCode::kUnimplemented:
      return Unimplemented("oneDNN, ", what, ": not supported on this CPU", AboutTheCap());
    default:
      return Internal("oneDNN, ", what, ": status ", static_cast<int>(code));
  }
}

}  // namespace tripont::onednn
