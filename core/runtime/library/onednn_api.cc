#include "core/runtime/library/onednn_api.h"

#include <dlfcn.h>
#include <tbb/version.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "core/runtime/backend.h"
#include "core/runtime/cpu_info.h"
#include "core/runtime/logging.h"
#include "core/runtime/shared_library.h"

namespace tripont::onednn {
namespace {

namespace fs = std::filesystem;

constexpr char kLibraryName[] = "libdnnl.so.3";
// What a library that TRIPONT_ONEDNN_PATH names may need besides oneTBB (the package's own does
// not: onednn_runtime.cc). It names no run path, so they are opened by full path; the dynamic
// linker then finds them by their names.
constexpr const char* kIntelRuntimes[] = {"libintlc.so.5", "libimf.so", "libsvml.so"};

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
// where oneTBB lies. The dynamic linker may still find the others.
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
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    OpenIntelRuntimes(path.parent_path());
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  }
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
  api.handle = handle;
#define TRIPONT_ONEDNN_RESOLVE(member, symbol, result, parameters)            \
  api.member = reinterpret_cast<decltype(api.member)>(dlsym(handle, symbol)); \
  if (api.member == nullptr) return Unavailable(path.string(), " has no function " symbol);
  TRIPONT_ONEDNN_FUNCTIONS(TRIPONT_ONEDNN_RESOLVE)
  const Version* version = api.version();
  if (version->major != 3) {
    return Unavailable(path.string(), " is oneDNN ", version->major, ".", version->minor,
                       ", but version 3 is needed");
  }
#undef TRIPONT_ONEDNN_RESOLVE
  if (!ActingCpu().empty() && api.set_max_cpu_isa(IsaOfCpu()) != StatusCode::kSuccess) {
    TRIPONT_LOG(kWarning, "oneDNN at ", api.path, " does not keep to the instructions of ",
                ActingCpu(), " (TRIPONT_CPU)");
  }
  TRIPONT_LOG(kDebug, "oneDNN ", version->major, ".", version->minor, ".", version->patch, " at ",
              api.path);
  return api;
}

// On the host, with oneTBB's threads. One engine and one stream for the process: that build runs a
// primitive inside the call that executes it.
class HostPort final : public Port {
 public:
  fs::path Folder() const override {
    return FolderOf(reinterpret_cast<const void*>(&LoadedOrNull));
  }

  StatusOr<Apis> Attach(const Api& library) const override {
    if (library.version()->cpu_runtime != kRuntimeTbb) {
      return Unavailable(library.path, " is a oneDNN without oneTBB threads (its CPU runtime is ",
                         "number ", library.version()->cpu_runtime,
                         "), and this process's kernels run on the host; a process uses one "
                         "oneDNN. The package brings one for oneTBB");
    }
    Api api = library;
    api.port = this;
    TRIPONT_RETURN_IF_ERROR(
        Check(api.engine_create(&api.engine, EngineKind::kCpu, 0), "creating the CPU engine"));
    TRIPONT_RETURN_IF_ERROR(Check(api.stream_create(&api.stream, api.engine, kStreamInOrder),
                                  "creating the CPU stream"));
    return Apis{new Api(api)};  // as long as the process
  }

  bool UsesQueue() const override { return false; }
  StatusCode MakeMemory(const Api& api, Memory* memory, ConstMemoryDesc layout) const override {
    return api.memory_create(memory, layout, api.engine, nullptr);
  }
  StatusOr<Stream> StreamOf(const Api& api, DeviceQueue&) const override { return api.stream; }
  Status FinishLoading(const Api&) const override { return OkStatus(); }
  MemorySource* memory_source() const override { return nullptr; }
};

const Port& TheHostPort() {
  static const auto* const port = new HostPort;
  return *port;
}

StatusOr<Apis> OpenFor(const Port& port, const fs::path& path) {
  TRIPONT_ASSIGN_OR_RETURN(const Api api, Open(path));
  return port.Attach(api);
}

StatusOr<Apis> FindAndOpen(const Backend& backend) {
  const Port* const own = backend.onednn();
  fs::path path = ChosenPath();
  std::error_code error;
  if (own != nullptr && !path.empty() && fs::exists(path, error)) return OpenFor(*own, path);
  if (own != nullptr && path.empty()) {
    StatusOr<Apis> apis = OpenFor(*own, own->Folder() / kLibraryName);
    if (apis.ok()) return apis;
    TRIPONT_LOG(kInfo,
                "matrix products and convolutions run on the host: ", apis.status().message());
  }
  if (path.empty()) path = TheHostPort().Folder() / kLibraryName;
  if (fs::exists(path, error)) return OpenFor(TheHostPort(), path);
  return Unavailable("oneDNN is missing: there is no ", path.string(),
                     "; install tripont again, or set TRIPONT_ONEDNN_PATH to a ", kLibraryName);
}

}  // namespace

StatusOr<const Apis*> Load(const Backend& backend) {
  if (const Apis* apis = loaded.load(std::memory_order_acquire)) return apis;
  // Leaked on purpose: executables may be destroyed after static destructors ran.
  static auto* const mutex = new std::mutex;
  static auto* const failure = new Status;
  std::lock_guard lock(*mutex);
  if (const Apis* apis = loaded.load(std::memory_order_acquire)) return apis;
  if (!failure->ok()) return *failure;
  StatusOr<Apis> apis = FindAndOpen(backend);
  if (!apis.ok()) {
    *failure = apis.status();
    failed.store(true, std::memory_order_release);
    return *failure;
  }
  loaded.store(new Apis(std::move(*apis)), std::memory_order_release);
  return loaded.load(std::memory_order_relaxed);
}

bool IsUsable(const Backend& backend) {
  if (loaded.load(std::memory_order_acquire) != nullptr) return true;
  std::vector<fs::path> places = {ChosenPath()};
  if (places[0].empty()) {
    places[0] = TheHostPort().Folder() / kLibraryName;
    if (const Port* const own = backend.onednn()) places.push_back(own->Folder() / kLibraryName);
  }
  const bool usable = !failed.load(std::memory_order_acquire) &&
                      std::any_of(places.begin(), places.end(), [](const fs::path& path) {
                        std::error_code error;
                        return fs::exists(path, error);
                      });
#if defined(__x86_64__)  // elsewhere there is none, and nothing to be said
  if (!usable) {
    static std::once_flag* const once = new std::once_flag;
    std::call_once(*once, [&] {
      TRIPONT_LOG(kWarning, "matrix products and convolutions are computed without oneDNN, which ",
                  "may be slower: ", Load(backend).status().message());
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
