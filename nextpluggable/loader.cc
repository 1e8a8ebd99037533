// tensorflow-plugins/libtripont_plugin.so: the library that TensorFlow opens, whatever TensorFlow
// it is.
//
// It must not need one symbol of TensorFlow's C++ API: with another version it could not even be
// opened, and `import tensorflow` would fail. So it asks TF_Version first. If the adapter was built
// for another version it says so, once, and gives TensorFlow a device type without devices;
// everything else of TensorFlow works.

#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <list>
#include <string>
#include <string_view>

#include "core/runtime/shared_library.h"
#include "nextpluggable/adapter.h"
#include "nextpluggable/device_functions.h"
#include "nextpluggable/profiler.h"

namespace tripont::tensorflow {
namespace {

struct Adapter {
  void* core = nullptr;
  TripontTensorflowInitPlugin* init_plugin = nullptr;
  TripontTensorflowPjrtApi* pjrt_api = nullptr;
  TripontTensorflowInitKernel* init_kernel = nullptr;
  std::string problem;  // why the device is not offered; empty if it is
};

// "2.21" of "2.21.0".
std::string_view MinorVersion(std::string_view version) {
  return version.substr(0, version.find('.', version.find('.') + 1));
}

// Whether classes that were compiled against one version's headers are laid out as the other's are:
// releases of one minor version keep them. What has a suffix ("2.21.0-rc1", "2.21.0-dev20260101")
// comes from another state of the source, and agrees with itself alone.
bool SameLayout(std::string_view built_for, std::string_view running) {
  if (built_for == running) return true;
  const auto is_release = [](std::string_view version) {
    return version.find_first_not_of("0123456789.") == std::string_view::npos;
  };
  return is_release(built_for) && is_release(running) &&
         MinorVersion(built_for) == MinorVersion(running);
}

// A library, opened by its path for as long as the process lives; its symbol. Null on failure, with
// the first reason in `problem`.
void* Open(const std::filesystem::path& library, std::string* problem) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr && problem->empty()) *problem = dlerror();
  return handle;
}

template <typename Function>
void Find(void* library, const char* symbol, Function** function, std::string* problem) {
  void* found = library == nullptr ? nullptr : dlsym(library, symbol);
  if (found == nullptr && problem->empty()) *problem = std::string(symbol) + " is missing";
  *function = reinterpret_cast<Function*>(found);
}

// <site-packages>/tripont/lib, which lies beside <site-packages>/tensorflow-plugins.
std::filesystem::path LibraryFolder() {
  static const char here = 0;
  return FolderOf(&here).parent_path() / "tripont" / "lib";
}

Adapter OpenAdapter() {
  Adapter adapter;
  if (!SameLayout(TRIPONT_TENSORFLOW_VERSION, TF_Version())) {
    adapter.problem = std::string("tripont's adapter was built for TensorFlow ") +
                      TRIPONT_TENSORFLOW_VERSION + ", and this is TensorFlow " + TF_Version();
    return adapter;
  }
  std::string* problem = &adapter.problem;
  adapter.core = Open(LibraryFolder() / "libtripont.so", problem);
  void* library = Open(LibraryFolder() / "libtripont_tensorflow.so", problem);
  Find(library, "tripont_tensorflow_init_plugin", &adapter.init_plugin, problem);
  Find(library, "tripont_tensorflow_pjrt_api", &adapter.pjrt_api, problem);
  Find(library, "tripont_tensorflow_init_kernel", &adapter.init_kernel, problem);
  return adapter;
}

Adapter& GetAdapter() {
  static Adapter* adapter = [] {
    auto* opened = new Adapter(OpenAdapter());
    if (!opened->problem.empty()) {
      (void)std::fprintf(
          stderr,
          "tripont: TensorFlow runs without the device XPU: %s. Install the tripont and "
          "tensorflow that "
          "belong together (pip install 'tripont[tensorflow]').\n",
          opened->problem.c_str());
    }
    return opened;
  }();
  return *adapter;
}

const TFNPD_Api* Functions() {
  static const TFNPD_Api api = DeviceFunctions();
  return &api;
}

// A device type for a plugin that has no devices. No two calls give the same one, in this library or
// in that of another installation: TensorFlow ends the process over a type that is registered twice.
const char* TypeWithoutDevices() {
  static std::list<std::string> types;
  const auto installation = reinterpret_cast<uintptr_t>(&types);
  types.push_back(std::string(kDeviceType) + "_WITHOUT_DEVICES_" + std::to_string(installation) +
                  "_" + std::to_string(types.size() + 1));
  return types.back().c_str();
}

// TensorFlow asks for the number of such a type's devices, and for nothing else.
const TFNPD_Api* WithoutDevices(TFNPD_PluginParams* params) {
  params->device_type = TypeWithoutDevices();
  params->compilation_device_name = "XLA_CPU_JIT";  // a backend that always exists
  params->priority = 0;
  params->is_pluggable_device = true;
  // TensorFlow registers compiled kernels once, for the first device type that asks for them: a
  // plugin that is loaded later, and has devices, needs them.
  params->use_pjrt_on_demand_compile = false;
  return Functions();
}

// Any PJRT table will do for a device type without devices, as long as TensorFlow can initialise
// it.
const PJRT_Api* EmptyPjrtApi() {
  static const PJRT_Api* api = [] {
    auto* table = new PJRT_Api{};
    table->struct_size = PJRT_Api_STRUCT_SIZE;
    table->pjrt_api_version.struct_size = PJRT_Api_Version_STRUCT_SIZE;
    table->pjrt_api_version.major_version = PJRT_API_MAJOR;
    table->pjrt_api_version.minor_version = PJRT_API_MINOR;
    table->PJRT_Plugin_Initialize = [](PJRT_Plugin_Initialize_Args*) -> PJRT_Error* {
      return nullptr;
    };
    return table;
  }();
  return api;
}

// TensorFlow opens the plugin of every folder of packages that it finds. The same plugin may lie in
// two of them (in lib64, where that is a link to lib), and a second tripont may be installed for the
// user. It does not bear that a device type is registered twice: the first plugin has the device.
// What TensorFlow asks a plugin for, it asks directly after TFNPD_InitPlugin.
enum class Turn { kFirst, kAgain };
Turn turn = Turn::kFirst;

const TFNPD_Api* InitPlugin(Adapter& adapter, TFNPD_PluginParams* params, TF_Status* status) {
  static bool has_device = false;
  params->device_type = TypeWithoutDevices();
  const TFNPD_Api* functions = adapter.init_plugin(adapter.core, params, status);
  turn = std::string_view(params->device_type) == kDeviceType ? Turn::kFirst : Turn::kAgain;
  has_device = has_device || turn == Turn::kFirst;
  if (!has_device) {
    adapter.problem =
        "another installation of tripont has registered its device before the one in " +
        LibraryFolder().parent_path().string();
    (void)std::fprintf(stderr, "tripont: TensorFlow found two installations, and uses one: %s.\n",
                       adapter.problem.c_str());
  }
  return functions;
}

}  // namespace
}  // namespace tripont::tensorflow

extern "C" {

TRIPONT_ADAPTER_EXPORT const TFNPD_Api* TFNPD_InitPlugin(TFNPD_PluginParams* params,
                                                         TF_Status* status) {
  using namespace tripont::tensorflow;
  TF_SetStatus(status, TF_OK, "");
  Adapter& adapter = GetAdapter();
  if (!adapter.problem.empty()) return WithoutDevices(params);
  return InitPlugin(adapter, params, status);
}

TRIPONT_ADAPTER_EXPORT const PJRT_Api* GetPjrtApi() {
  using namespace tripont::tensorflow;
  const Adapter& adapter = GetAdapter();
  const bool has_devices = adapter.problem.empty() && turn == Turn::kFirst;
  return has_devices ? adapter.pjrt_api() : EmptyPjrtApi();
}

// For tests: the table of a device type without devices.
TRIPONT_ADAPTER_EXPORT const TFNPD_Api* tripont_plugin_functions() {
  return tripont::tensorflow::Functions();
}

// For frontends/tensorflow: the version that the adapter was built for, and why there is no device
// (empty if there is).
TRIPONT_ADAPTER_EXPORT const char* tripont_plugin_tensorflow_version() {
  return TRIPONT_TENSORFLOW_VERSION;
}

TRIPONT_ADAPTER_EXPORT const char* tripont_plugin_problem() {
  return tripont::tensorflow::GetAdapter().problem.c_str();
}

TRIPONT_ADAPTER_EXPORT void TF_InitKernel() {
  using namespace tripont::tensorflow;
  const Adapter& adapter = GetAdapter();
  if (adapter.problem.empty() && turn == Turn::kFirst) adapter.init_kernel();
}

TRIPONT_ADAPTER_EXPORT void TF_InitProfiler(TF_ProfilerRegistrationParams* params,
                                            TF_Status* status) {
  tripont::tensorflow::InitProfiler(GetPjrtApi(), params, status);
}
}
