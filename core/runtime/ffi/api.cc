#include "core/runtime/ffi/api.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/runtime/device.h"
#include "core/runtime/ffi/registry.h"
#include "core/runtime/parallel.h"

namespace tripont::ffi {

Status TakeError(Error* error) {
  if (error == nullptr) return OkStatus();
  Status status = std::move(error->status);
  delete error;
  return status.ok() ? Internal("a handler returned an error without a code") : status;
}

Error* MakeError(Status status) { return status.ok() ? nullptr : new Error{std::move(status)}; }

State::~State() {
  if (deleter_ != nullptr && object_ != nullptr) deleter_(object_);
}

Status State::Set(int64_t type_id, void* object) {
  if (type_id_ != 0) return FailedPrecondition("the state of this stage is set already");
  const std::optional<Type> type = FindType(type_id);
  if (!type) return NotFound("type ", type_id, " is not registered; jax.ffi.register_ffi_type");
  type_id_ = type_id;
  object_ = object;
  deleter_ = type->deleter;
  return OkStatus();
}

StatusOr<void*> State::Get(int64_t type_id) const {
  if (type_id_ == 0) return NotFound("no state was set");
  if (type_id_ != type_id) {
    return InvalidArgument("the state has the type ", type_id_, ", not ", type_id);
  }
  return object_;
}

namespace {

// Every function of the table starts with this: a caller whose struct is too short was compiled
// with another version.
template <typename Args>
Status CheckSize(const Args* args, size_t size = sizeof(Args)) {
  if (args == nullptr) return InvalidArgument("the argument struct is null");
  if (args->struct_size >= size) return OkStatus();
  return InvalidArgument("an argument struct of ", args->struct_size, " bytes, but ", size,
                         " are needed: compile the handler with the headers of jaxlib 0.10");
}

// Version 0.3 ends with the message.
constexpr size_t kErrorGetMessageSize = sizeof(ArgsBase) + sizeof(Error*) + sizeof(const char*);
// Up to the last field that is read: the struct ends in padding.
constexpr size_t kDeviceOrdinalSize =
    sizeof(ArgsBase) + sizeof(ExecutionContext*) + sizeof(int32_t);

#define TRIPONT_FFI_RETURN_IF_ERROR(expression)     \
  if (Status error_ = (expression); !error_.ok()) { \
    return MakeError(std::move(error_));            \
  }

std::string_view View(const ByteSpan& span) { return {span.ptr, span.len}; }

// What handlers call while they run on a device; FAILED_PRECONDITION in the stage 'instantiate'.
StatusOr<LibraryContext*> Running(const ExecutionContext* context) {
  if (context == nullptr || context->library == nullptr) {
    return FailedPrecondition("there is no device in the stage 'instantiate'");
  }
  return context->library;
}

Error* ErrorCreate(ErrorCreateArgs* args) {
  const auto code = StatusCodeFromInt(args->code);
  return new Error{Status(code == StatusCode::kOk ? StatusCode::kUnknown : code,
                          args->message == nullptr ? "" : args->message)};
}

void ErrorGetDetails(ErrorGetDetailsArgs* args) {
  const Error* const error = args->error;
  args->message = error == nullptr ? "" : error->status.message().c_str();
  if (args->struct_size <= kErrorGetMessageSize) return;
  args->code = static_cast<int32_t>(error == nullptr ? StatusCode::kOk : error->status.code());
}

void ErrorDestroy(ErrorDestroyArgs* args) { delete args->error; }

Error* HandlerRegister(HandlerRegisterArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  if (!IsOurPlatform(View(args->platform))) {
    return MakeError(InvalidArgument("custom call '", View(args->name), "' for the platform '",
                                     View(args->platform), "': this is 'xpu'"));
  }
  return MakeError(RegisterHandler(View(args->name), args->bundle));
}

Error* StreamGet(StreamGetArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  args->stream = nullptr;
  return MakeError(Unimplemented(
      "xpu has no platform stream for handlers: they run on the host, in the stream's order"));
}

Error* TypeRegister(TypeRegisterArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  if (args->type_id == nullptr) return MakeError(InvalidArgument("`type_id` is null"));
  const TypeInfo* const info = args->type_info;
  return MakeError(RegisterType(View(args->name), info == nullptr ? nullptr : info->deleter,
                                &args->type_id->type_id));
}

Error* ExecutionContextGet(ExecutionContextGetArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  const StatusOr<LibraryContext*> context = Running(args->context);
  if (!context.ok()) return MakeError(context.status());
  const UserData* const data = (*context)->user_data();
  const auto found =
      data == nullptr ? UserData::const_iterator() : data->find(args->type_id->type_id);
  if (data == nullptr || found == data->end()) {
    return MakeError(NotFound("the execution has no user data of type ", args->type_id->type_id));
  }
  args->data = found->second;
  return nullptr;
}

// The fields of both versions of StateArgs.
struct StateRequest {
  ExecutionContext* context;
  Stage stage;
  int64_t type_id;
  void** state;
};

StatusOr<StateRequest> ReadStateArgs(ArgsBase* base) {
  TRIPONT_RETURN_IF_ERROR(CheckSize(base, sizeof(StateArgs2)));
  StateRequest request;
  TypeId* type = nullptr;
  if (base->struct_size >= sizeof(StateArgs3)) {
    auto* const args = static_cast<StateArgs3*>(base);
    request = {args->context, args->stage, 0, &args->state};
    type = args->type_id;
  } else {
    auto* const args = static_cast<StateArgs2*>(base);
    request = {args->context, Stage::kInstantiate, 0, &args->state};
    type = args->type_id;
  }
  const auto stage = static_cast<uint32_t>(request.stage);
  if (request.context == nullptr || type == nullptr || stage >= request.context->states.size()) {
    return InvalidArgument("state of stage ", stage, " does not exist");
  }
  request.type_id = type->type_id;
  return request;
}

Error* StateSet(ArgsBase* base) {
  const StatusOr<StateRequest> request = ReadStateArgs(base);
  if (!request.ok()) return MakeError(request.status());
  State* const state = request->context->states[static_cast<size_t>(request->stage)];
  if (state == nullptr) return MakeError(FailedPrecondition("this stage is over"));
  return MakeError(state->Set(request->type_id, *request->state));
}

Error* StateGet(ArgsBase* base) {
  const StatusOr<StateRequest> request = ReadStateArgs(base);
  if (!request.ok()) return MakeError(request.status());
  const State* const state = request->context->states[static_cast<size_t>(request->stage)];
  if (state == nullptr) return MakeError(NotFound("no state was set"));
  const StatusOr<void*> object = state->Get(request->type_id);
  if (!object.ok()) return MakeError(object.status());
  *request->state = *object;
  return nullptr;
}

Error* MemoryAllocate(MemoryAllocateArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  const StatusOr<LibraryContext*> context = Running(args->context);
  if (!context.ok()) return MakeError(context.status());
  if (args->alignment > Allocator::kAlignment) {
    return MakeError(InvalidArgument("memory aligned to ", args->alignment, " bytes: at most ",
                                     Allocator::kAlignment));
  }
  StatusOr<Scratch> scratch = (*context)->AllocateScratch(args->size);
  if (!scratch.ok()) return MakeError(scratch.status());
  args->data = scratch->data();
  args->context->memory.push_back(std::move(*scratch));
  return nullptr;
}

Error* MemoryFree(MemoryFreeArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  std::vector<Scratch>& memory = args->context->memory;
  const auto found = std::find_if(memory.begin(), memory.end(), [&](const Scratch& scratch) {
    return scratch.data() == args->data;
  });
  if (found == memory.end()) {
    return MakeError(InvalidArgument("memory that was not allocated here, or freed already"));
  }
  memory.erase(found);
  return nullptr;
}

Error* Schedule(ScheduleArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  EnqueueTask(args->task, args->data);
  return nullptr;
}

Error* GetNumThreads(NumThreadsArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  *args->num_threads = NumThreads();
  return nullptr;
}

Error* FutureCreate(FutureCreateArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args, sizeof(ArgsBase)));
  args->future = new Future;
  return nullptr;
}

Error* FutureSetAvailable(FutureSetAvailableArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  // Whoever waits for it destroys the future.
  const Ref<Event> event = args->future->event;
  event->SetReady();
  return nullptr;
}

Error* FutureSetError(FutureSetErrorArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  const Ref<Event> event = args->future->event;
  event->SetError(TakeError(args->error));
  return nullptr;
}

Error* GetRunId(RunIdArgs* args) {
  // jaxlib's header gives the size of another struct of the same length here.
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  const StatusOr<LibraryContext*> context = Running(args->context);
  if (!context.ok()) return MakeError(context.status());
  args->run_id = (*context)->run_id();
  return nullptr;
}

Error* GetDeviceOrdinal(DeviceOrdinalArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args, kDeviceOrdinalSize));
  const StatusOr<LibraryContext*> context = Running(args->context);
  if (!context.ok()) return MakeError(context.status());
  args->device_ordinal = (*context)->device()->id();
  return nullptr;
}

// No framework attaches anything to an execution on xpu, or gives it options.
Error* FindExtension(FindExtensionArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  args->extension = nullptr;
  return nullptr;
}

Error* GetCustomOptions(CustomOptionsArgs* args) {
  TRIPONT_FFI_RETURN_IF_ERROR(CheckSize(args));
  static const Attributes none{sizeof(Attributes), nullptr, 0, nullptr, nullptr, nullptr};
  args->options = &none;
  return nullptr;
}

Error* NotThere(ArgsBase*) {
  return MakeError(Unimplemented("a function of a newer version of the XLA FFI than ", kApiMajor,
                                 ".", kApiMinor));
}

// The table, and behind it what handlers of a newer version would find there.
struct PaddedApi {
  Api api;
  Error* (*newer[16])(ArgsBase*);
};

PaddedApi MakeApi() {
  PaddedApi padded{};
  Api& api = padded.api;
  api.struct_size = sizeof(Api);
  api.api_version = {sizeof(ApiVersion), nullptr, kApiMajor, kApiMinor};
  api.error_create = ErrorCreate;
  api.error_get_details = ErrorGetDetails;
  api.error_destroy = ErrorDestroy;
  api.handler_register = HandlerRegister;
  api.stream_get = StreamGet;
  api.type_register = TypeRegister;
  api.execution_context_get = ExecutionContextGet;
  api.state_set = StateSet;
  api.state_get = StateGet;
  api.memory_allocate = MemoryAllocate;
  api.memory_free = MemoryFree;
  api.schedule = Schedule;
  api.num_threads = GetNumThreads;
  api.future_create = FutureCreate;
  api.future_set_available = FutureSetAvailable;
  api.future_set_error = FutureSetError;
  api.run_id = GetRunId;
  api.device_ordinal = GetDeviceOrdinal;
  api.find_extension = FindExtension;
  api.custom_options = GetCustomOptions;
  for (auto& function : padded.newer) function = NotThere;
  return padded;
}

#undef TRIPONT_FFI_RETURN_IF_ERROR

}  // namespace

const Api& GetApi() {
  static const PaddedApi padded = MakeApi();
  return padded.api;
}

}  // namespace tripont::ffi
