// The device type XPU: what TensorFlow is told of it, and how its devices come to be.

#include <dlfcn.h>

#include <cstdio>
#include <mutex>
#include <optional>
#include <string>

#include "nextpluggable/adapter.h"
#include "nextpluggable/bridge/kernels.h"
#include "nextpluggable/device_functions.h"
#include "nextpluggable/devices.h"
#include "nextpluggable/function_calls.h"
#include "nextpluggable/host_transfers.h"
#include "nextpluggable/kernels/register.h"
#include "nextpluggable/loop_programs.h"
#include "nextpluggable/pjrt.h"
#include "nextpluggable/placement.h"
#include "nextpluggable/while_loops.h"
#include "nextpluggable/xla_device.h"
#include "tensorflow/core/common_runtime/next_pluggable_device/next_pluggable_device_api.h"

namespace tripont::tensorflow {
namespace {

// From the first of TensorFlow's calls to the last, in which it registers the kernels.
std::optional<QuietLog> loading;

// TensorFlow asks for the number of devices before it has a client, so a client is made just to
// count. The core of the process is made with it, and the client that TensorFlow gets afterwards
// finds everything warm.
int32_t CountDevices(std::string* problem) {
  auto create = PjrtArguments<PJRT_Client_Create_Args>();
  if (PJRT_Error* error = Pjrt()->PJRT_Client_Create(&create)) {
    TakeError(error, problem);
    return 0;
  }
  auto devices = PjrtArguments<PJRT_Client_AddressableDevices_Args>();
  devices.client = create.client;
  PJRT_Error* error = Pjrt()->PJRT_Client_AddressableDevices(&devices);
  if (error != nullptr) TakeError(error, problem);
  auto destroy = PjrtArguments<PJRT_Client_Destroy_Args>();
  destroy.client = create.client;
  if (PJRT_Error* destroyed = Pjrt()->PJRT_Client_Destroy(&destroy)) TakeError(destroyed, problem);
  return problem->empty() ? static_cast<int32_t>(devices.num_addressable_devices) : 0;
}

// The core and the adapter come out of one build, so that what is looked up is there.
template <typename Function>
Function* Symbol(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

// An error here would make every use of TensorFlow fail, on the CPU too. So it is said once, and
// there is no device.
int32_t DeviceCount() {
  static const int32_t count = [] {
    std::string problem;
    const int32_t counted = CountDevices(&problem);
    if (!problem.empty()) {
      (void)std::fprintf(stderr, "tripont: TensorFlow runs without the device XPU: %s\n",
                         problem.c_str());
    }
    return counted;
  }();
  return count;
}

int32_t GetDeviceCount(TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  return DeviceCount();
}

// TensorFlow may ask for devices several times (new contexts, sessions); the client stays the same.
// It asks even if there are none.
void InitPluginInternalDeviceStates(TF_Status* status) {
  static std::mutex mutex;
  static bool created = false;
  TF_SetStatus(status, TF_OK, "");
  const std::lock_guard<std::mutex> lock(mutex);
  if (created || DeviceCount() == 0) return;
  CreateClient(status);
  created = TF_GetCode(status) == TF_OK;
}

}  // namespace
}  // namespace tripont::tensorflow

const TFNPD_Api* tripont_tensorflow_init_plugin(void* core, TFNPD_PluginParams* params,
                                                TF_Status* status) {
  using namespace tripont::tensorflow;
  TF_SetStatus(status, TF_OK, "");
  params->compilation_device_name = kCompilationDevice;
  params->priority = 0;  // below the CPU: a device of this type is used where the program says so
  params->is_pluggable_device = true;
  params->use_pjrt_on_demand_compile = true;
  if (HasDeviceFactory()) {
    RegisterTypeWithoutDevices(params->device_type);
    // There is one table for all plugins: the one that stands stays.
    return ::tensorflow::TfnpdApi();
  }
  params->device_type = kDeviceType;
  SetCore(CoreFunctions{
      .api = Symbol<const PJRT_Api*()>(core, "GetPjrtApi")(),
      .await_read = Symbol<decltype(tripont_buffer_await_read)>(core, "tripont_buffer_await_read"),
      .await_write =
          Symbol<decltype(tripont_buffer_await_write)>(core, "tripont_buffer_await_write"),
      .parallel_for = Symbol<decltype(tripont_parallel_for)>(core, "tripont_parallel_for"),
      .collect = Symbol<decltype(tripont_exchange_collect)>(core, "tripont_exchange_collect"),
      .reset_peak_memory = Symbol<decltype(tripont_device_reset_peak_memory)>(
          core, "tripont_device_reset_peak_memory")});
  RegisterDeviceFactory();
  RegisterXlaDevice();
  RegisterBridgeKernels();
  PlaceCompiledCalls();
  WatchPlacement();
  CompileLoops();
  LowerLoopsWithHostState();
  SeparateHostTransfers();
  loading.emplace();
  static const TFNPD_Api table = [] {
    TFNPD_Api functions = DeviceFunctions();
    functions.TFNPD_GetDeviceCount = GetDeviceCount;
    functions.TFNPD_InitPluginInternalDeviceStates = InitPluginInternalDeviceStates;
    return functions;
  }();
  return &table;
}

const PJRT_Api* tripont_tensorflow_pjrt_api() { return tripont::tensorflow::TableForTensorflow(); }

void tripont_tensorflow_init_kernel() {
  tripont::tensorflow::ReadDeviceFunctions();
  tripont::tensorflow::RegisterAllKernels();
  tripont::tensorflow::loading.reset();
}
