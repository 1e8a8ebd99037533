#include "core/runtime/backend_registry.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "core/runtime/client.h"
#include "core/runtime/logging.h"

// TRIPONT_FOR_EACH_BACKEND(X): X(name) for each folder of core/runtime/backends, host first.
#include "backends.inc"

namespace tripont {

#define TRIPONT_DECLARE_BACKEND(name)        \
  namespace name {                           \
  const BackendRegistration& Registration(); \
  }
TRIPONT_FOR_EACH_BACKEND(TRIPONT_DECLARE_BACKEND)
#undef TRIPONT_DECLARE_BACKEND

namespace {

// Never destroyed: clients may be created while the process exits.
struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<const BackendRegistration>> backends;
  std::mutex loading;
  // By the handle of each library, which is one for all spellings of its path, how its registration
  // ended. Guarded by loading.
  std::map<void*, Status> loaded;
};

Status Add(Registry& registry, BackendRegistration registration) {
  const std::string& name = registration.name;
  const bool word = !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-';
  });
  if (!word) return InvalidArgument("a backend cannot be called '", name, "'");
  if (registration.make == nullptr) return InvalidArgument("backend ", name, " makes no backend");
  const std::lock_guard<std::mutex> lock(registry.mutex);
  for (const auto& there : registry.backends) {
    if (there->name == name) return InvalidArgument("there is a backend ", name, " already");
  }
  registry.backends.push_back(std::make_unique<const BackendRegistration>(std::move(registration)));
  return OkStatus();
}

Registry& TheRegistry() {
  static Registry* const registry = [] {
    auto* made = new Registry;
#define TRIPONT_ADD_BACKEND(name) (void)Add(*made, name::Registration());
    TRIPONT_FOR_EACH_BACKEND(TRIPONT_ADD_BACKEND)
#undef TRIPONT_ADD_BACKEND
    return made;
  }();
  return *registry;
}

// "host, sycl, sycl:cpu or sycl:gpu"
std::string PossibleDevices() {
  std::vector<std::string> devices;
  for (const BackendRegistration* backend : RegisteredBackends()) {
    devices.push_back(backend->name);
    for (const std::string& choice : backend->choices)
      devices.push_back(StrCat(backend->name, ":", choice));
  }
  const std::string last = devices.back();
  devices.pop_back();
  return devices.empty() ? last : StrCat(StrJoin(devices, ", "), " or ", last);
}

// "sycl:gpu" -> "sycl" and "gpu"
std::pair<std::string_view, std::string_view> SplitDevice(std::string_view device) {
  const size_t colon = device.find(':');
  if (colon == std::string_view::npos) return {device, {}};
  return {device.substr(0, colon), device.substr(colon + 1)};
}

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

Status RegisterLibrary(void* library, const std::string& path) {
  const auto version =
      reinterpret_cast<const char* (*)()>(dlsym(library, "tripont_backend_version"));
  const auto abi = reinterpret_cast<int (*)()>(dlsym(library, "tripont_backend_abi"));
  const auto add = reinterpret_cast<Status* (*)()>(dlsym(library, "tripont_register_backend"));
  if (version == nullptr || add == nullptr) {
    return Unavailable("TRIPONT_BACKENDS: ", path,
                       " has no functions tripont_backend_version and tripont_register_backend");
  }
  if (version() != Version()) {
    return FailedPrecondition("TRIPONT_BACKENDS: ", path, " was built for tripont ", version(),
                              ", this is ", Version());
  }
  if (abi == nullptr || abi() != kBackendAbi) {
    return FailedPrecondition("TRIPONT_BACKENDS: ", path, " was built for tripont ", version(),
                              " with backends of ABI ", abi == nullptr ? 0 : abi(),
                              ", this is a build with ABI ", kBackendAbi);
  }
  const std::unique_ptr<Status> status(add());
  return status == nullptr ? OkStatus() : status->WithPrefix(path);
}

}  // namespace

StatusOr<std::unique_ptr<UserKernel>> Backend::LoadUserKernel(std::string_view format,
                                                              std::string_view,
                                                              const std::string&) {
  std::vector<std::string> titles, names;
  for (const BackendRegistration* backend : RegisteredBackends()) {
    if (backend->kernel_format != format) continue;
    titles.push_back(backend->title);
    names.push_back(backend->name);
  }
  if (names.empty()) {
    return FailedPrecondition("the kernel is a ", format,
                              " module, which no device of this version of tripont runs");
  }
  return FailedPrecondition(
      "the kernel is a ", format, " module, which runs on ", StrJoin(titles, " and "),
      " devices: set TRIPONT_DEVICE=", StrJoin(names, " or "),
      ", or make it with tripont.kernels.from_c or from_llvm_ir for the host");
}

Status RegisterBackend(BackendRegistration registration) {
  return Add(TheRegistry(), std::move(registration));
}

Status LoadBackends(std::string_view paths) {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.loading);
  while (!paths.empty()) {
    const std::string path(paths.substr(0, paths.find(':')));
    paths.remove_prefix(std::min(paths.size(), path.size() + 1));
    if (path.empty()) continue;
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
      return Unavailable("TRIPONT_BACKENDS: cannot load ", path, ": ", dlerror());
    const auto [entry, is_new] = registry.loaded.try_emplace(library);
    if (is_new) {
      entry->second = Internal(path, ": its registration ended with an exception");
      entry->second = RegisterLibrary(library, path);
    }
    TRIPONT_RETURN_IF_ERROR(entry->second);
  }
  return OkStatus();
}

std::vector<const BackendRegistration*> RegisteredBackends() {
  Registry& registry = TheRegistry();
  const std::lock_guard<std::mutex> lock(registry.mutex);
  std::vector<const BackendRegistration*> backends;
  backends.reserve(registry.backends.size());
  for (const auto& backend : registry.backends) backends.push_back(backend.get());
  return backends;
}

const BackendRegistration* FindBackend(std::string_view name) {
  for (const BackendRegistration* backend : RegisteredBackends()) {
    if (backend->name == name) return backend;
  }
  return nullptr;
}

Status CheckDeviceChoice(std::string_view device) {
  if (device.empty()) return OkStatus();
  const auto [name, choice] = SplitDevice(device);
  const BackendRegistration* const backend = FindBackend(name);
  const bool has_choice = name.size() != device.size();
  if (backend != nullptr && (!has_choice || Contains(backend->choices, choice) ||
                             Contains(backend->hidden_choices, choice))) {
    return OkStatus();
  }
  return InvalidArgument("TRIPONT_DEVICE=", device, ": expected ", PossibleDevices());
}

StatusOr<Backend*> MakeBackend(std::string_view device, const std::string& python) {
  TRIPONT_RETURN_IF_ERROR(CheckDeviceChoice(device));
  if (!device.empty()) {
    const auto [name, choice] = SplitDevice(device);
    if (name == HostBackend().target()) return &HostBackend();
    return FindBackend(name)->make(choice, python);
  }
  for (const BackendRegistration* registration : RegisteredBackends()) {
    if (registration->may_be_default == nullptr || !registration->may_be_default(python)) continue;
    StatusOr<Backend*> backend = registration->make(registration->default_choice, python);
    if (backend.ok()) return backend;
    TRIPONT_LOG(kInfo, "no ", registration->title, " ", registration->default_choice,
                ", using the host: ", backend.status().message());
  }
  return &HostBackend();
}

Backend& HostBackend() {
  static Backend* const backend =
      RegisteredBackends().front()->make("", "").value();  // it cannot fail
  return *backend;
}

}  // namespace tripont
