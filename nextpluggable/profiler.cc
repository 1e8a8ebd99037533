#include "nextpluggable/profiler.h"

#include <cstdint>
#include <string>

#include "nextpluggable/adapter.h"
#include "tensorflow/c/tf_status.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"

namespace tripont::tensorflow {
namespace {

// The core's profiler, started and stopped as often as TensorFlow likes; lives as long as the
// process.
struct CoreProfiler {
  const PLUGIN_Profiler_Api* api;
  PLUGIN_Profiler* profiler;
};

const PLUGIN_Profiler_Api* FindProfilerApi(const PJRT_Api* pjrt) {
  for (PJRT_Extension_Base* extension = pjrt->extension_start; extension != nullptr;
       extension = extension->next) {
    if (extension->type == PJRT_Extension_Type_Profiler) {
      return reinterpret_cast<PJRT_Profiler_Extension*>(extension)->profiler_api;
    }
  }
  return nullptr;
}

// Whether there is no `error`; frees it and puts its message into `status`.
bool TakeProfilerError(const PLUGIN_Profiler_Api* api, PLUGIN_Profiler_Error* error,
                       TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  if (error == nullptr) return true;
  PLUGIN_Profiler_Error_Message_Args message{};
  message.struct_size = PLUGIN_Profiler_Error_Message_Args_STRUCT_SIZE;
  message.error = error;
  api->error_message(&message);
  PLUGIN_Profiler_Error_GetCode_Args code{};
  code.struct_size = PLUGIN_Profiler_Error_GetCode_Args_STRUCT_SIZE;
  code.error = error;
  api->error_get_code(&code);
  // The codes of both sides are those of absl::StatusCode.
  TF_SetStatus(status, static_cast<TF_Code>(code.code),
               std::string(message.message, message.message_size).c_str());
  PLUGIN_Profiler_Error_Destroy_Args destroy{};
  destroy.struct_size = PLUGIN_Profiler_Error_Destroy_Args_STRUCT_SIZE;
  destroy.error = error;
  api->error_destroy(&destroy);
  return false;
}

const CoreProfiler* CoreOf(const TP_Profiler* profiler) {
  return static_cast<const CoreProfiler*>(profiler->ext);
}

void Start(const TP_Profiler* profiler, TF_Status* status) {
  const CoreProfiler* core = CoreOf(profiler);
  if (core == nullptr) return TF_SetStatus(status, TF_OK, "");
  PLUGIN_Profiler_Start_Args args{};
  args.struct_size = PLUGIN_Profiler_Start_Args_STRUCT_SIZE;
  args.profiler = core->profiler;
  TakeProfilerError(core->api, core->api->start(&args), status);
}

void Stop(const TP_Profiler* profiler, TF_Status* status) {
  const CoreProfiler* core = CoreOf(profiler);
  if (core == nullptr) return TF_SetStatus(status, TF_OK, "");
  PLUGIN_Profiler_Stop_Args args{};
  args.struct_size = PLUGIN_Profiler_Stop_Args_STRUCT_SIZE;
  args.profiler = core->profiler;
  TakeProfilerError(core->api, core->api->stop(&args), status);
}

void CollectData(const TP_Profiler* profiler, uint8_t* buffer, size_t* size, TF_Status* status) {
  const CoreProfiler* core = CoreOf(profiler);
  *size = 0;  // TensorFlow does not set it, and reads it even after an error
  if (core == nullptr) return TF_SetStatus(status, TF_OK, "");
  PLUGIN_Profiler_CollectData_Args args{};
  args.struct_size = PLUGIN_Profiler_CollectData_Args_STRUCT_SIZE;
  args.profiler = core->profiler;
  args.buffer = buffer;
  if (TakeProfilerError(core->api, core->api->collect_data(&args), status)) {
    *size = args.buffer_size_in_bytes;
  }
}

}  // namespace

void InitProfiler(const PJRT_Api* pjrt, TF_ProfilerRegistrationParams* params, TF_Status* status) {
  TF_SetStatus(status, TF_OK, "");
  CoreProfiler* core = nullptr;
  if (const PLUGIN_Profiler_Api* api = FindProfilerApi(pjrt); api != nullptr) {
    PLUGIN_Profiler_Create_Args args{};
    args.struct_size = PLUGIN_Profiler_Create_Args_STRUCT_SIZE;
    if (!TakeProfilerError(api, api->create(&args), status)) return;
    core = new CoreProfiler{api, args.profiler};
  }
  params->struct_size = TF_PROFILER_REGISTRATION_PARAMS_STRUCT_SIZE;
  params->profiler->struct_size = TP_PROFILER_STRUCT_SIZE;
  params->profiler->ext = core;
  params->profiler->device_type = kDeviceType;
  params->profiler_fns->struct_size = TP_PROFILER_FNS_STRUCT_SIZE;
  params->profiler_fns->start = Start;
  params->profiler_fns->stop = Stop;
  params->profiler_fns->collect_data_xspace = CollectData;
  // TensorFlow copies both structs and calls these for each copy.
  params->destroy_profiler = [](TP_Profiler*) {};
  params->destroy_profiler_fns = [](TP_ProfilerFns*) {};
}

}  // namespace tripont::tensorflow
