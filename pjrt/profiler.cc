#include "pjrt/profiler.h"

#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "core/runtime/exceptions.h"
#include "core/runtime/profile.h"
#include "core/runtime/status.h"
#include "pjrt/profile_recording.h"
#include "pjrt/wire.h"
#include "pjrt/xspace.h"
#include "xla/pjrt/c/pjrt_c_api_profiler_extension.h"

struct PLUGIN_Profiler_Error {
  tripont::Status status;
};

struct PLUGIN_Profiler {
  tripont::pjrt::ProfileOptions options;
  std::mutex mutex;
  // While it is started, and then until the data is asked for.
  std::shared_ptr<tripont::pjrt::ProfileRecording> recording;
  bool started = false;
  bool has_data = false;  // data holds the XSpace of what was recorded last
  std::string data;
};

namespace tripont::pjrt {
namespace {

// For when there is no memory for another one. Made with the table, never destroyed.
PLUGIN_Profiler_Error* LastError() {
  static auto* const error = new PLUGIN_Profiler_Error{OutOfHostMemory()};
  return error;
}

PLUGIN_Profiler_Error* ToProfilerError(Status status) noexcept {
  if (status.ok()) return nullptr;
  auto* const error = new (std::nothrow) PLUGIN_Profiler_Error{std::move(status)};
  return error != nullptr ? error : LastError();
}

// One function of the table. struct_size is not looked at: XLA's own client leaves it
// uninitialised in all argument structs of the profiler.
template <typename Args, Status (*kImplementation)(Args&)>
PLUGIN_Profiler_Error* Called(Args* args) noexcept {
  return ToProfilerError(Guarded("profiler", [args] {
    if (args == nullptr) return InvalidArgument("profiler: no arguments");
    return kImplementation(*args);
  }));
}

// Reads a tensorflow.ProfileOptions (tsl/profiler/protobuf/profiler_options.proto). A field that is
// not set is 0; a client without options wants everything.
StatusOr<ProfileOptions> ReadOptions(std::string_view bytes) {
  constexpr uint32_t kHostTracerLevel = 2, kDeviceTracerLevel = 3, kEnableHloProto = 7;
  ProfileOptions options;
  if (bytes.empty()) return options;
  options = {.device = false, .host = false, .programs = false};
  WireReader reader(bytes);
  while (reader.Next()) {
    if (reader.type() != WireType::kVarint) continue;
    const bool wanted = reader.number() != 0;
    if (reader.field() == kDeviceTracerLevel) options.device = wanted;
    if (reader.field() == kHostTracerLevel) options.host = wanted;
    if (reader.field() == kEnableHloProto) options.programs = wanted;
  }
  if (!reader.ok()) return InvalidArgument("profiler: the options are no ProfileOptions message");
  return options;
}

Status Create(PLUGIN_Profiler_Create_Args& args) {
  args.profiler = nullptr;
  std::string_view bytes;
  if (args.options != nullptr) bytes = {args.options, args.options_size};
  TRIPONT_ASSIGN_OR_RETURN(const ProfileOptions options, ReadOptions(bytes));
  auto profiler = std::make_unique<PLUGIN_Profiler>();
  profiler->options = options;
  args.profiler = profiler.release();
  return OkStatus();
}

Status NullProfiler() { return InvalidArgument("profiler: `profiler` is null"); }

Status Start(PLUGIN_Profiler_Start_Args& args) {
  if (args.profiler == nullptr) return NullProfiler();
  PLUGIN_Profiler& profiler = *args.profiler;
  const std::lock_guard<std::mutex> lock(profiler.mutex);
  if (profiler.started) return FailedPrecondition("profiler: it is started already");
  auto recording = std::make_shared<ProfileRecording>(profiler.options);
  TRIPONT_RETURN_IF_ERROR(StartProfiling(recording));
  profiler.recording = std::move(recording);
  profiler.started = true;
  profiler.has_data = false;
  profiler.data.clear();
  return OkStatus();
}

// With the profiler's lock.
Status StopLocked(PLUGIN_Profiler& profiler) {
  if (!profiler.started) return FailedPrecondition("profiler: it is not started");
  TRIPONT_RETURN_IF_ERROR(StopProfiling(profiler.recording.get()));
  profiler.started = false;
  return OkStatus();
}

Status Stop(PLUGIN_Profiler_Stop_Args& args) {
  if (args.profiler == nullptr) return NullProfiler();
  const std::lock_guard<std::mutex> lock(args.profiler->mutex);
  return StopLocked(*args.profiler);
}

Status Destroy(PLUGIN_Profiler_Destroy_Args& args) {
  const std::unique_ptr<PLUGIN_Profiler> profiler(args.profiler);
  if (profiler == nullptr) return OkStatus();
  const std::lock_guard<std::mutex> lock(profiler->mutex);
  return profiler->started ? StopLocked(*profiler) : OkStatus();
}

// Two ways of asking are in use. The header has the caller ask for the size with a null buffer and
// come again with one of that size; XLA's own client asks once, with a null buffer, and reads what
// the profiler puts into `buffer`.
Status CollectData(PLUGIN_Profiler_CollectData_Args& args) {
  if (args.profiler == nullptr) return NullProfiler();
  PLUGIN_Profiler& profiler = *args.profiler;
  const std::lock_guard<std::mutex> lock(profiler.mutex);
  if (profiler.started) {
    return FailedPrecondition("profiler: stop it before its data is asked for");
  }
  if (!profiler.has_data) {
    if (profiler.recording == nullptr) {
      return FailedPrecondition("profiler: it has no data, because it was never started");
    }
    profiler.data = ToXSpace(profiler.recording->Take());
    profiler.recording = nullptr;
    profiler.has_data = true;
  }
  args.buffer_size_in_bytes = profiler.data.size();
  auto* const data = reinterpret_cast<uint8_t*>(profiler.data.data());
  if (args.buffer == nullptr) {
    args.buffer = data;
  } else if (args.buffer != data) {
    std::memcpy(args.buffer, data, profiler.data.size());
  }
  return OkStatus();
}

// The functions of errors themselves cannot fail.

void ErrorDestroy(PLUGIN_Profiler_Error_Destroy_Args* args) {
  if (args != nullptr && args->error != LastError()) delete args->error;
}

void ErrorMessage(PLUGIN_Profiler_Error_Message_Args* args) {
  if (args == nullptr) return;
  const std::string_view message =
      args->error == nullptr ? std::string_view("") : args->error->status.message();
  args->message = message.data();
  args->message_size = message.size();
}

PLUGIN_Profiler_Error* ErrorGetCode(PLUGIN_Profiler_Error_GetCode_Args* args) {
  if (args == nullptr) return ToProfilerError(InvalidArgument("profiler: no arguments"));
  // As in PJRT_Error_Code.
  args->code = args->error == nullptr ? 0 : static_cast<int>(args->error->status.code());
  return nullptr;
}

}  // namespace

uint64_t CallerInProfile(const PJRT_Extension_Base* extensions) {
  for (; extensions != nullptr; extensions = extensions->next) {
    if (extensions->type == PJRT_Extension_Type_Profiler &&
        extensions->struct_size >= PJRT_Profiler_Extension_STRUCT_SIZE) {
      return static_cast<uint64_t>(
          reinterpret_cast<const PJRT_Profiler_Extension*>(extensions)->traceme_context_id);
    }
  }
  return 0;
}

PJRT_Extension_Base* ProfilerExtension() {
  static PLUGIN_Profiler_Api api = [] {
    LastError();  // while there is memory
    PLUGIN_Profiler_Api result{};
    result.struct_size = PLUGIN_Profiler_Api_STRUCT_SIZE;
    result.error_destroy = ErrorDestroy;
    result.error_message = ErrorMessage;
    result.error_get_code = ErrorGetCode;
    result.create = Called<PLUGIN_Profiler_Create_Args, Create>;
    result.destroy = Called<PLUGIN_Profiler_Destroy_Args, Destroy>;
    result.start = Called<PLUGIN_Profiler_Start_Args, Start>;
    result.stop = Called<PLUGIN_Profiler_Stop_Args, Stop>;
    result.collect_data = Called<PLUGIN_Profiler_CollectData_Args, CollectData>;
    return result;
  }();
  static PJRT_Profiler_Extension extension{
      .base = {PJRT_Profiler_Extension_STRUCT_SIZE, PJRT_Extension_Type_Profiler, nullptr},
      .profiler_api = &api,
      .traceme_context_id = 0};
  return &extension.base;
}

}  // namespace tripont::pjrt
