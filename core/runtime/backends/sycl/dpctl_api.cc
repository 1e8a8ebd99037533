#include "core/runtime/backends/sycl/dpctl_api.h"

#include <dlfcn.h>
#include <tbb/version.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <vector>

#include "core/runtime/logging.h"
#include "core/runtime/shared_library.h"

namespace tripont::sycl {
namespace {

namespace fs = std::filesystem;

constexpr char kLibraryName[] = "libDPCTLSyclInterface.so";
constexpr char kOpenClCpuName[] = "libintelocl.so";

std::atomic<const Api*> loaded{nullptr};

// The dpctl folders of the environment at `prefix`.
void AddEnvironment(const fs::path& prefix, std::vector<fs::path>& candidates) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", error)) {
    if (entry.path().filename().string().rfind("python3", 0) != 0) continue;
    candidates.push_back(entry.path() / "site-packages" / "dpctl" / kLibraryName);
  }
}

std::vector<fs::path> Candidates(const std::string& python) {
  std::error_code error;
  if (const char* chosen = std::getenv("TRIPONT_DPCTL_PATH");
      chosen != nullptr && *chosen != '\0') {
    const fs::path path(chosen);
    return {fs::is_directory(path, error) ? path / kLibraryName : path};
  }
  std::vector<fs::path> candidates;
  if (const fs::path folder = FolderOf(reinterpret_cast<const void*>(&Load)); !folder.empty()) {
    candidates.push_back((folder / "../../dpctl" / kLibraryName).lexically_normal());
  }
  // The interpreter's path as it is: in a virtual environment it is a link to somewhere else.
  if (const fs::path path(python); path.has_parent_path())
    AddEnvironment(path.parent_path().parent_path(), candidates);
  if (const fs::path folder = FolderOf(reinterpret_cast<const void*>(&TBB_runtime_version));
      !folder.empty()) {
    AddEnvironment(folder.parent_path(), candidates);
  }
  return candidates;
}

// <prefix>/lib/python3.x/site-packages/dpctl/<library> -> <prefix>/lib
fs::path EnvironmentLibraries(const fs::path& library) {
  return library.parent_path().parent_path().parent_path().parent_path();
}

void AnnounceOpenClCpu(const fs::path& library) {
  const fs::path runtime = EnvironmentLibraries(library) / kOpenClCpuName;
  std::error_code error;
  if (fs::exists(runtime, error)) setenv("OCL_ICD_FILENAMES", runtime.c_str(), /*overwrite=*/0);
}

StatusOr<const Api*> Open(const fs::path& path) {
  AnnounceOpenClCpu(path);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr)
    return Unavailable("cannot load the SYCL runtime ", path.string(), ": ", dlerror());
  auto api = std::make_unique<Api>();
  api->path = path.string();
  api->library_folder = EnvironmentLibraries(path).string();
#define TRIPONT_DPCTL_RESOLVE(member, result, parameters)                                \
  api->member = reinterpret_cast<decltype(api->member)>(dlsym(handle, "DPCTL" #member)); \
  if (api->member == nullptr) return Unavailable(path.string(), " has no function DPCTL" #member);
  TRIPONT_DPCTL_FUNCTIONS(TRIPONT_DPCTL_RESOLVE)
#undef TRIPONT_DPCTL_RESOLVE
  TRIPONT_LOG(kDebug, "SYCL through ", api->path);
  return static_cast<const Api*>(api.release());  // as long as the process
}

StatusOr<const Api*> FindAndOpen(const std::string& python) {
  std::vector<std::string> looked_at;
  for (const fs::path& path : Candidates(python)) {
    std::error_code error;
    if (fs::exists(path, error)) return Open(path);
    looked_at.push_back(path.string());
  }
  return Unavailable("no SYCL runtime is installed: there is no ", StrJoin(looked_at, " nor "),
                     "; pip install 'tripont[sycl]', or set TRIPONT_DPCTL_PATH to the folder of ",
                     kLibraryName);
}

}  // namespace

StatusOr<const Api*> Load(const std::string& python) {
  static auto* const mutex = new std::mutex;
  static auto* const failure = new Status;
  const std::lock_guard<std::mutex> lock(*mutex);
  if (const Api* api = loaded.load(std::memory_order_acquire)) return api;
  if (!failure->ok()) return *failure;
  StatusOr<const Api*> api = FindAndOpen(python);
  if (api.ok()) {
    loaded.store(*api, std::memory_order_release);
  } else {
    *failure = api.status();
  }
  return api;
}

const Api* LoadedOrNull() { return loaded.load(std::memory_order_acquire); }

bool IsInstalled(const std::string& python) {
  for (const fs::path& path : Candidates(python)) {
    std::error_code error;
    if (fs::exists(path, error)) return true;
  }
  return false;
}

void Deleter::operator()(DeviceRef handle) const { LoadedOrNull()->Device_Delete(handle); }
void Deleter::operator()(EventRef handle) const { LoadedOrNull()->Event_Delete(handle); }
void Deleter::operator()(QueueRef handle) const { LoadedOrNull()->Queue_Delete(handle); }
void Deleter::operator()(KernelBundleRef handle) const {
  LoadedOrNull()->KernelBundle_Delete(handle);
}
void Deleter::operator()(KernelRef handle) const { LoadedOrNull()->Kernel_Delete(handle); }

std::string TakeString(const Api& api, const char* text) {
  if (text == nullptr) return "";
  std::string copy(text);
  api.CString_Delete(text);
  return copy;
}

std::string DeviceName(const Api& api, DeviceRef device) {
  const std::string name = TakeString(api, api.Device_GetName(device));
  const size_t first = name.find_first_not_of(' ');
  return first == std::string::npos ? ""
                                    : name.substr(first, name.find_last_not_of(' ') + 1 - first);
}

}  // namespace tripont::sycl
