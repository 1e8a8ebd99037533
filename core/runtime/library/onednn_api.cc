#include "core/runtime/library/onednn_api.h"

#include <dlfcn.h>
#include <tbb/version.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <vector>

#include "core/runtime/logging.h"
#include "core/runtime/shared_library.h"

namespace tripont::onednn {
namespace {

namespace fs = std::filesystem;

constexpr char kLibraryName[] = "libdnnl.so.3";
// What the library needs besides oneTBB. It names no run path, so they are opened first, by full
// path; the dynamic linker then finds them by their names.
constexpr const char* kIntelRuntimes[] = {"libintlc.so.5", "libimf.so"};

std::atomic<const Api*> loaded{nullptr};

std::vector<fs::path> Candidates() {
  if (const char* chosen = std::getenv("TRIPONT_ONEDNN_PATH");
      chosen != nullptr && *chosen != '\0') {
    std::error_code error;
    fs::path path(chosen);
    return {fs::is_directory(path, error) ? path / kLibraryName : path};
  }
  std::vector<fs::path> candidates;
  if (fs::path folder = FolderOf(reinterpret_cast<const void*>(&Load)); !folder.empty()) {
    candidates.push_back(folder / kLibraryName);
  }
  return candidates;
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

StatusOr<const Api*> Open(const fs::path& path) {
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
  auto api = std::make_unique<Api>();
  api->path = path.string();
#define TRIPONT_ONEDNN_RESOLVE(member, symbol, result, parameters)              \
  api->member = reinterpret_cast<decltype(api->member)>(dlsym(handle, symbol)); \
  if (api->member == nullptr) return Unavailable(path.string(), " has no function " symbol);
  TRIPONT_ONEDNN_FUNCTIONS(TRIPONT_ONEDNN_RESOLVE)
#undef TRIPONT_ONEDNN_RESOLVE
  const Version* version = api->version();
  if (version->major != 3) {
    return Unavailable(path.string(), " is oneDNN ", version->major, ".", version->minor,
                       ", but version 3 is needed");
  }
  if (version->cpu_runtime != kRuntimeTbb) {
    return Unavailable(path.string(),
                       " is a oneDNN without oneTBB threads (its CPU runtime is number ",
                       version->cpu_runtime, "); the package brings one that has them");
  }
  TRIPONT_RETURN_IF_ERROR(
      Check(api->engine_create(&api->engine, EngineKind::kCpu, 0), "creating the CPU engine"));
  TRIPONT_RETURN_IF_ERROR(Check(api->stream_create(&api->stream, api->engine, kStreamInOrder),
                                "creating the CPU stream"));
  TRIPONT_LOG(kDebug, "oneDNN ", version->major, ".", version->minor, ".", version->patch, " at ",
              api->path);
  return static_cast<const Api*>(api.release());  // as long as the process
}

StatusOr<const Api*> FindAndOpen() {
  std::vector<fs::path> candidates = Candidates();
  std::vector<std::string> looked_at;
  for (const fs::path& path : candidates) {
    std::error_code error;
    if (!fs::exists(path, error)) {
      looked_at.push_back(path.string());
      continue;
    }
    return Open(path);
  }
  return Unavailable("oneDNN is missing: there is no ", StrJoin(looked_at, " nor "),
                     "; install tripont again, or set TRIPONT_ONEDNN_PATH to a ", kLibraryName);
}

}  // namespace

StatusOr<const Api*> Load() {
  if (const Api* api = loaded.load(std::memory_order_acquire)) return api;
  // Leaked on purpose: executables may be destroyed after static destructors ran.
  static auto* const mutex = new std::mutex;
  static auto* const failure = new Status;
  std::lock_guard lock(*mutex);
  if (const Api* api = loaded.load(std::memory_order_acquire)) return api;
  if (!failure->ok()) return *failure;
  StatusOr<const Api*> api = FindAndOpen();
  if (api.ok()) {
    loaded.store(*api, std::memory_order_release);
  } else {
    *failure = api.status();
  }
  return api;
}

const Api* LoadedOrNull() { return loaded.load(std::memory_order_acquire); }

Status Check(StatusCode code, const char* what) {
  switch (code) {
    case StatusCode::kSuccess:
      return OkStatus();
    case StatusCode::kOutOfMemory:
      return ResourceExhausted("oneDNN, ", what, ": out of memory");
    case StatusCode::kUnimplemented:
      return Unimplemented("oneDNN, ", what, ": not supported on this CPU");
    default:
      return Internal("oneDNN, ", what, ": status ", static_cast<int>(code));
  }
}

}  // namespace tripont::onednn
